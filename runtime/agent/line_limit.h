// How many lines a worker may send to its driver: `per_second` on average, twice as many at once.
// Owner: one stream of lines. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace troupe {

class LineLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit LineLimit(int per_second) : per_second_(per_second), left_(2.0 * per_second) {}

  // True when the line may pass; otherwise it is counted.
  bool pass(Time now) {
    if (last_ != Time{}) {
      left_ = std::min(2.0 * per_second_,
                       left_ + per_second_ * std::chrono::duration<double>(now - last_).count());
    }
    last_ = now;
    if (left_ < 1) {
      ++dropped_;
      return false;
    }
    left_ -= 1;
    return true;
  }
  // The lines left out since this was last asked.
  std::uint64_t take_dropped() { return std::exchange(dropped_, 0); }

 private:
  double per_second_;
  double left_;
  Time last_{};
  std::uint64_t dropped_ = 0;
};

}  // namespace troupe
