// The clock of deadlines: steady, so that setting the machine's time moves no deadline. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

// Nanoseconds since some moment before this process began; 0 is used for "never" where a deadline is stored.
inline std::int64_t steady_ns() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace troupe
