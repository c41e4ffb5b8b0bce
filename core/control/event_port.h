// KJ's event loop driven by Asio. The rules that hold here, each found by breaking it, each with a test in
// tests/unit/core/control/event_port_test.cpp:
//   1. setRunnable never runs the loop; it posts a pump to Asio.
//   2. A pump runs turns, then polls for cross-thread events, then calls run(0) so that the loop's idea of
//      "runnable" is refreshed; leaving out either hangs.
//   3. poll() never runs Asio; wait() runs Asio but a pump that it meets does nothing.
//   4. Streams wait for readiness and then read without blocking (stream.h).
//   5. Timers are advanced at each pump and an Asio timer is armed for the next one. A timer that an Asio
//   handler
//      sets makes nothing runnable, so setting one asks for a pump.
//   6. One pump runs a bounded number of turns, then lets Asio's other handlers run.
// Owner: ControlLoop. Thread: the control thread, but wake() may be called by any.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>

namespace troupe {

class AsioEventPort final : public kj::EventPort, private kj::Timer {
 public:
  static constexpr unsigned kTurnsPerPump = 512;

  explicit AsioEventPort(asio::io_context& io);
  ~AsioEventPort() noexcept(false) = default;

  // Called once, after the loop that uses this port and its scope were made.
  void attach(kj::EventLoop& loop, kj::WaitScope& scope);
  // Before loop and scope go: later pumps do nothing.
  void detach();

  kj::Timer& timer() { return *this; }

  bool wait() override;
  bool poll() override;
  void setRunnable(bool runnable) override;
  void wake() const override;

 private:
  // The clock's, not that of the last pump: a delay begins when it is asked for.
  kj::TimePoint now() const override;
  kj::Promise<void> atTime(kj::TimePoint time) override;
  kj::Promise<void> afterDelay(kj::Duration delay) override;
  void post_pump() const;
  void pump();
  void advance_time();
  void arm_timer();
  std::uint64_t next_timer();  // nanoseconds, kNoTimer when there is none

  asio::io_context& io_;
  kj::TimerImpl timer_;
  asio::steady_timer alarm_;
  static constexpr std::uint64_t kNoTimer = ~std::uint64_t{0};
  std::uint64_t armed_for_ = kNoTimer;
  kj::EventLoop* loop_ = nullptr;
  kj::WaitScope* scope_ = nullptr;
  bool in_wait_ = false;
  mutable std::atomic<bool> pump_posted_{false};
  mutable std::atomic<bool> woken_{false};
};

}  // namespace troupe
