// What the files of Lane share (lane.cpp, lane_driver.cpp); nobody else includes it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/clock.h"

namespace troupe {
class Lane;
}

namespace troupe::lane_internal {

// Whose baton this thread holds.
extern constinit thread_local Lane* current_lane;

// For epoll_wait; `at` in steady nanoseconds, 0: never.
inline int timeout_until(std::int64_t at) {
  if (at == 0) return -1;
  std::int64_t left = at - steady_ns();
  return left <= 0 ? 0 : static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, 60'000));
}

}  // namespace troupe::lane_internal
