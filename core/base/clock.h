// The clock of deadlines: steady, so that setting the machine's time moves no deadline. Any thread.
#pragma once

#include <algorithm>
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

// More than anything waits: longer times are cut to it, so that no sum of times overflows.
inline constexpr std::chrono::hours kEver{24 * 365 * 100};

// The moment after `time`, in steady nanoseconds; never 0.
inline std::int64_t deadline_after(std::chrono::nanoseconds time) {
  std::int64_t at = steady_ns() + std::clamp<std::chrono::nanoseconds>(time, -kEver, kEver).count();
  return at > 0 ? at : 1;
}

}  // namespace troupe
