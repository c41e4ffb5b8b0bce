#include "core/link/polling.h"

#include <algorithm>

namespace troupe {

std::chrono::microseconds PollingPolicy::next_wait() {
  if (budget_.count() <= 0) return std::chrono::microseconds(0);
  if (skip_ == 0) return budget_;
  --skip_;
  return std::chrono::microseconds(0);
}

void PollingPolicy::polled(bool found) {
  if (found) {
    skip_ = 0;
    penalty_ = 1;
  } else {
    skip_ = penalty_;
    penalty_ = std::min(penalty_ * 2, kMostSkipped);
  }
}

}  // namespace troupe
