// What every mesh keeps: its deadline and its first failure; and the failures they have in common.
//
// Owner: the mesh. Any thread. Who makes it fail, or the deadline earlier, wakes those that wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/group/mesh.h"

namespace troupe {

class MeshState {
 public:
  std::int64_t deadline() const { return deadline_.load(std::memory_order_acquire); }
  // Whether it is earlier than before.
  bool set_deadline(std::int64_t deadline_ns) {
    return deadline_ns < deadline_.exchange(deadline_ns, std::memory_order_acq_rel);
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<MeshFailure> failure() const;
  // Whether it is the first, which is kept.
  bool fail(MeshFailure failure);

 private:
  std::atomic<std::int64_t> deadline_{INT64_MAX};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::optional<MeshFailure> failure_;
};

std::string list_ranks(const std::vector<int>& ranks);  // "ranks 1, 4"
// At `rank`: connections to these ended. They may have left after an error of their own.
MeshFailure connections_lost(int rank, const std::string& what, std::vector<int> ranks);
// At `rank`: the deadline passed while messages of these were waited for.
MeshFailure too_late(int rank, std::vector<int> waited_for);

}  // namespace troupe
