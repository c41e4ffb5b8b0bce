// Named places in the code where a test may make something fail. Off, a point costs one relaxed load of a
// global.
//
// Turned on by TROUPE_FAULTS in the environment, "name=probability/name=probability*most", "*" at the end of
// a name for all that begin so, or by FaultPoints::decide_by (the simulator). Counters tell what was reached.
// The points are listed in docs/design/simulation.md.
//
// Owner: static storage of the file that uses it. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace troupe {

class FaultPoint {
 public:
  explicit FaultPoint(const char* name);
  FaultPoint(const FaultPoint&) = delete;

  // Whether the fault happens now.
  bool fires() { return enabled.load(std::memory_order_relaxed) && decide(); }
  // Ends the process without a word if it fires. `where` tells a simulator whose code this is: the process's
  // Executor or Timer.
  void crash(const void* where) {
    if (fires()) crash_now(where);
  }

  const char* name() const { return name_; }
  std::uint64_t reached() const { return reached_.load(std::memory_order_relaxed); }  // while faults were on
  std::uint64_t fired() const { return fired_.load(std::memory_order_relaxed); }

 private:
  friend struct FaultPoints;
  bool decide();
  void crash_now(const void* where);

  static std::atomic<bool> enabled;
  const char* name_;
  FaultPoint* next_ = nullptr;
  std::atomic<std::uint64_t> reached_{0}, fired_{0};
};

// All points of this program.
struct FaultPoints {
  using Decide = std::function<bool(const FaultPoint&)>;
  using Crash = std::function<void(const FaultPoint&, const void* where)>;

  static std::vector<FaultPoint*> all();  // by name
  // As TROUPE_FAULTS; empty: off. Errors name the part that is wrong.
  static Result<void> configure(const std::string& text, std::uint64_t seed);
  // A test's own choice; null functions: off.
  static void decide_by(Decide decide, Crash crash);
};

}  // namespace troupe
