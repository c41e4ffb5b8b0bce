// The control thread's loop: one Asio io_context with KJ's event loop inside. Every process has one; user
// code never runs on it, so a busy actor delays no heartbeat, kill or status.
//
// Owner: the process (head, agent, worker host, driver runtime). Made, run and destroyed on one thread; only
// post() and stop() may be called from others. Whatever lives on the loop (streams, RPC systems, servers,
// clients) is made after it and destroyed before it, in reverse order, on the same thread.
#pragma once

#include <kj/async-io.h>
#include <kj/async.h>
#include <kj/timer.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <functional>

#include "core/control/event_port.h"
#include "core/control/executor.h"

namespace troupe {

class ControlLoop final : public Executor {
 public:
  ControlLoop();
  ~ControlLoop() noexcept(false);
  ControlLoop(const ControlLoop&) = delete;

  void run();   // until stop()
  void stop();  // any thread, also before run()

  // Any thread. An exception that escapes is logged.
  void post(std::function<void()> work) override;

  asio::io_context& io() { return io_; }
  kj::Timer& timer() override { return port_.timer(); }
  kj::WaitScope& scope() { return scope_; }  // for tests: promise.wait(loop.scope())

  void spawn(const char* what, kj::Promise<void> promise) override;

 private:
  struct LogFailures;

  asio::io_context io_{1};
  // Waiting is never taken for having nothing to do.
  asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
  std::atomic<bool> stopping_{false};
  AsioEventPort port_;
  kj::EventLoop loop_;
  kj::WaitScope scope_;
  kj::Own<kj::TaskSet::ErrorHandler> on_failure_;
  kj::Own<kj::TaskSet> tasks_;
};

}  // namespace troupe
