#include "tests/sim/sim_process.h"

#include "core/control/kj_error.h"

namespace troupe::sim {
namespace {

kj::TimePoint point(Micros micros) { return kj::origin<kj::TimePoint>() + micros * kj::MICROSECONDS; }

}  // namespace

SimProcess::SimProcess(VirtualTime& time, OnFailure on_failure)
    : time_(time),
      number_(++time.last_process_),
      on_failure_(std::move(on_failure)),
      timer_(*this),
      tasks_(kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this))) {
  time_.processes_.emplace(number_, this);
}

SimProcess::~SimProcess() noexcept(false) { end(); }

void SimProcess::end() {
  time_.processes_.erase(number_);
  alive_.reset();
  posted_.clear();
  tasks_ = nullptr;
}

void SimProcess::post(std::function<void()> work) {
  if (!alive_) return;
  posted_.push_back(std::move(work));
  if (scheduled_ || frozen_) return;
  scheduled_ = true;
  time_.after(0, [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) run_posted();
  });
}

void SimProcess::run_posted() {
  scheduled_ = false;
  if (frozen_) return;
  std::weak_ptr<int> alive = alive_;
  for (std::size_t n = posted_.size(); n > 0 && !alive.expired() && !posted_.empty(); --n) {
    auto work = std::move(posted_.front());
    posted_.pop_front();
    work();
  }
  if (!alive.expired() && !posted_.empty() && !scheduled_) {
    scheduled_ = true;
    time_.after(0, [this, alive] {
      if (!alive.expired()) run_posted();
    });
  }
}

void SimProcess::thaw() {
  if (!frozen_) return;
  frozen_ = false;
  time_.look_at(number_, time_.now());
  if (!posted_.empty() && !scheduled_) {
    scheduled_ = true;
    time_.after(0, [this, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) run_posted();
    });
  }
}

void SimProcess::spawn(const char* what, kj::Promise<void> promise) {
  if (!alive_) return;
  tasks_->add(promise.catch_([this, what](kj::Exception&& failure) {
    if (failure.getType() == kj::Exception::Type::DISCONNECTED) return;
    on_failure_(std::string(what) + " failed: " + error_of(failure).describe());
  }));
}

void SimProcess::taskFailed(kj::Exception&& failure) { on_failure_(error_of(failure).describe()); }

SimProcess::Timer::Timer(SimProcess& process) : impl(point(process.time_.now())), process_(process) {}

kj::TimePoint SimProcess::Timer::now() const { return point(process_.time_.now()); }

kj::Promise<void> SimProcess::Timer::atTime(kj::TimePoint time) {
  std::int64_t nanos = (time - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
  process_.time_.look_at(process_.number_, (nanos + 999) / 1000);
  return impl.atTime(time);
}

bool SimProcess::fire_timers() {
  if (frozen_) return false;
  kj::TimePoint now = timer_.now();
  bool due = false;
  KJ_IF_MAYBE (next, timer_.impl.nextEvent()) {
    due = *next <= now;
  }
  timer_.impl.advanceTo(now);
  return due;
}

}  // namespace troupe::sim
