// One simulated process: its timers and posted work, which stop while it is frozen and end with it.
//
// Owner: what the process runs (a head, an agent), which is destroyed before it. Thread: the simulation's.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "core/control/executor.h"
#include "tests/sim/virtual_time.h"

namespace troupe::sim {

class SimProcess final : public Executor, private kj::TaskSet::ErrorHandler {
 public:
  using OnFailure = std::function<void(const std::string& text)>;
  // `on_failure` hears of background tasks that failed, but for broken connections.
  SimProcess(VirtualTime& time, OnFailure on_failure);
  ~SimProcess() noexcept(false);

  void post(std::function<void()> work) override;
  kj::Timer& timer() override { return timer_; }
  void spawn(const char* what, kj::Promise<void> promise) override;

  // The process is dead: none of its work runs any more.
  void end();

  // As SIGSTOP and SIGCONT.
  void freeze() { frozen_ = true; }
  void thaw();
  bool frozen() const { return frozen_; }

 private:
  friend class VirtualTime;
  // Tells VirtualTime when to look.
  class Timer final : public kj::Timer {
   public:
    explicit Timer(SimProcess& process);
    kj::TimePoint now() const override;
    kj::Promise<void> atTime(kj::TimePoint time) override;
    kj::Promise<void> afterDelay(kj::Duration delay) override { return atTime(now() + delay); }
    kj::TimerImpl impl;

   private:
    SimProcess& process_;
  };
  bool fire_timers();  // false: none is due
  void run_posted();
  void taskFailed(kj::Exception&& failure) override;

  VirtualTime& time_;
  std::uint64_t number_;
  OnFailure on_failure_;
  Timer timer_;
  bool frozen_ = false;
  std::deque<std::function<void()>> posted_;
  bool scheduled_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  kj::Own<kj::TaskSet> tasks_;
};

}  // namespace troupe::sim
