// The clock of deadlines: steady, so that setting the machine's time moves no deadline. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace troupe {

// A simulation's clock in its place, or null. Set before anything asks for the time.
inline constinit std::atomic<std::int64_t (*)()> simulated_steady_ns{nullptr};

// Nanoseconds since some moment before this process began; 0 is used for "never" where a deadline is stored.
inline std::int64_t steady_ns() {
  if (auto* simulated = simulated_steady_ns.load(std::memory_order_relaxed)) [[unlikely]]
    return simulated();
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace troupe
