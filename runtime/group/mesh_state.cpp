#include "runtime/group/mesh_state.h"

#include <algorithm>

namespace troupe {

std::optional<MeshFailure> MeshState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

bool MeshState::fail(MeshFailure failure) {
  std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = std::move(failure);
  failed_.store(true, std::memory_order_release);
  return true;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return shown < ranks.size() ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
}

MeshFailure connections_lost(int rank, const std::string& what, std::vector<int> ranks) {
  return {Error(ErrorKind::unavailable, "rank " + std::to_string(rank) + " lost its connection to " +
                                            list_ranks(ranks) +
                                            ": it ended, or left after an error of its own (" + what + ")"),
          std::move(ranks), true};
}

MeshFailure too_late(int rank, std::vector<int> waited_for) {
  std::sort(waited_for.begin(), waited_for.end());
  waited_for.erase(std::unique(waited_for.begin(), waited_for.end()), waited_for.end());
  std::string text = "the deadline of an operation passed";
  if (!waited_for.empty())
    text += " while rank " + std::to_string(rank) + " waited for " + list_ranks(waited_for);
  return {Error(ErrorKind::deadline_exceeded, text), std::move(waited_for), false};
}

}  // namespace troupe
