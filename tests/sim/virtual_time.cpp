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

void VirtualTime::at(Micros time, std::function<void()> what) {
  due_.push_back({std::max(time, now_), ++order_, std::move(what)});
  std::push_heap(due_.begin(), due_.end());
}

bool VirtualTime::step(Micros limit) {
  constexpr Micros kNever = std::int64_t{1} << 61;
  Micros next = due_.empty() ? kNever : due_.front().time;
  Micros timer = kNever;
  for (auto& [id, process] : processes_) timer = std::min(timer, process->next_timer().orDefault(kNever));
  if (std::min(next, timer) > limit || std::min(next, timer) == kNever) {
    if (limit < kNever / 4) advance(limit);
    return false;
  }
  if (timer <= next) {
    advance(timer);
  } else {
    advance(next);
    std::pop_heap(due_.begin(), due_.end());
    auto what = std::move(due_.back().what);
    due_.pop_back();
    what();
  }
  settle();
  return true;
}

void VirtualTime::advance(Micros to) {
  now_ = std::max(now_, to);
  for (auto& [id, process] : processes_) process->advance();
}

void VirtualTime::settle() {
  scope_.poll();
  if (on_settled) on_settled();
}

}  // namespace troupe::sim
