// Simulated time: one KJ event loop whose clock jumps to the next thing that is due when nothing is left to
// do.
//
// Owner: the simulation. Thread: one. Everything on the loop is made after it and destroyed before it. A
// *step* is one due event, or the timers of one moment, and everything that follows from it at that moment.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace troupe::sim {

using Micros = std::int64_t;
inline constexpr Micros kMilli = 1'000;
inline constexpr Micros kSecond = 1'000'000;

class SimProcess;

class VirtualTime {
 public:
  VirtualTime();
  ~VirtualTime() noexcept(false);
  VirtualTime(const VirtualTime&) = delete;

  Micros now() const { return now_; }
  // Events of one moment run in the order they were asked for.
  void at(Micros time, std::function<void()> what);
  void after(Micros delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  // The next step, if it is due by `limit`; else time moves to `limit`, and false.
  bool step(Micros limit);
  void forget() { due_.clear(); }    // before what the events look at goes
  void settle();                     // runs what is ready now
  std::function<void()> on_settled;  // at the end of every settle

  kj::WaitScope& scope() { return scope_; }

 private:
  friend class SimProcess;
  struct Due {
    Micros time;
    std::uint64_t order;
    std::uint64_t process;                    // not 0: look at that process's timers
    std::function<void()> what;               // else
    bool operator<(const Due& other) const {  // for a heap with the earliest on top
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  void push(Due due);
  // Timers of the process are due then; one that was dropped meanwhile makes no step.
  void look_at(std::uint64_t process, Micros time);

  class Port;
  kj::Own<Port> port_;
  kj::EventLoop loop_;
  kj::WaitScope scope_;
  Micros now_ = 0;
  std::uint64_t order_ = 0;
  std::vector<Due> due_;
  std::unordered_map<std::uint64_t, SimProcess*> processes_;
  std::uint64_t last_process_ = 0;
};

}  // namespace troupe::sim
