// How far a copy has come that is being received: written by the thread that fills it, waited for by those
// that pass it on.
//
// Owner: shared by them. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace troupe {

class Filling {
 public:
  struct State {
    std::uint64_t bytes = 0;  // from the start; they stay as they are
    bool broken = false;      // no more will come
  };

  void advance(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    state_.bytes = bytes;
    changed_.notify_all();
  }
  void break_off() {
    std::lock_guard lock(mutex_);
    state_.broken = true;
    changed_.notify_all();
  }
  // Until there are more than `bytes`, it is broken, or `patience` has passed.
  State wait_beyond(std::uint64_t bytes, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return state_.bytes > bytes || state_.broken; });
    return state_;
  }
  State state() {
    std::lock_guard lock(mutex_);
    return state_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_;
};

}  // namespace troupe
