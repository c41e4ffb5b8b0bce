#include "runtime/group/work.h"

namespace troupe {

bool Work::done() const {
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

// Once done, the state does not change.
Result<void> Work::outcome() const {
  if (state_->error) return *state_->error;
  return {};
}

Result<void> Work::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->done; });
  return outcome();
}

bool Work::wait_for(std::chrono::nanoseconds limit) const {
  std::unique_lock lock(state_->mutex);
  return state_->ended.wait_for(lock, limit, [&] { return state_->done; });
}

void Work::then(std::function<void(const Result<void>&)> f) const {
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->done) {
      state_->continuation = std::move(f);
      return;
    }
  }
  f(outcome());
}

void Work::finish(std::optional<Error> error) const {
  std::function<void(const Result<void>&)> continuation;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->done) return;
    state_->done = true;
    state_->error = std::move(error);
    continuation = std::move(state_->continuation);
    state_->ended.notify_all();
  }
  if (continuation) continuation(outcome());
}

}  // namespace troupe
