// Where the work of one control thread runs: a ControlLoop in the product, a simulated process with a clock
// of its own in tests/sim. Code that only posts, waits and spawns takes this and runs in both.
//
// Owner: the process. Thread: the control thread; post() may be called by any.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <functional>

namespace troupe {

class Executor {
 public:
  // Runs `work` on the control thread, in the order posted.
  virtual void post(std::function<void()> work) = 0;
  virtual kj::Timer& timer() = 0;
  // Runs `promise` to its end in the background; a failure is logged as "`what` failed".
  virtual void spawn(const char* what, kj::Promise<void> promise) = 0;

 protected:
  ~Executor() noexcept(false) = default;
};

}  // namespace troupe
