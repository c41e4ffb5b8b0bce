#include "tests/sim/virtual_time.h"

#include <algorithm>

#include "tests/sim/sim_process.h"

namespace troupe::sim {

// promise.wait() turns time on.
class VirtualTime::Port final : public kj::EventPort {
 public:
  explicit Port(VirtualTime& time) : time_(time) {}
  bool wait() override {
    constexpr Micros kForEver = std::int64_t{1} << 60;
    KJ_REQUIRE(time_.step(kForEver), "waits for something that never comes");
    return false;
  }
  bool poll() override { return false; }

 private:
  VirtualTime& time_;
};

VirtualTime::VirtualTime() : port_(kj::heap<Port>(*this)), loop_(*port_), scope_(loop_) {}

VirtualTime::~VirtualTime() noexcept(false) = default;

void VirtualTime::push(Due due) {
  due_.push_back(std::move(due));
  std::push_heap(due_.begin(), due_.end());
}

void VirtualTime::at(Micros time, std::function<void()> what) {
  push({std::max(time, now_), ++order_, 0, std::move(what)});
}

void VirtualTime::look_at(std::uint64_t process, Micros time) {
  push({std::max(time, now_), ++order_, process, nullptr});
}

bool VirtualTime::step(Micros limit) {
  for (;;) {
    if (due_.empty() || due_.front().time > limit) {
      constexpr Micros kForEver = std::int64_t{1} << 59;
      if (limit < kForEver) now_ = std::max(now_, limit);
      return false;
    }
    std::pop_heap(due_.begin(), due_.end());
    Due due = std::move(due_.back());
    due_.pop_back();
    now_ = std::max(now_, due.time);
    if (due.process == 0) {
      due.what();
    } else {
      auto at = processes_.find(due.process);
      if (at == processes_.end() || !at->second->fire_timers()) continue;
    }
    settle();
    return true;
  }
}

void VirtualTime::settle() {
  scope_.poll();
  if (on_settled) on_settled();
}

}  // namespace troupe::sim
