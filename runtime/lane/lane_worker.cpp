// Threads of a worker's lane: one runs it, spares take over when an actor blocks; and waiting inside of a
// call (lane.h).
#include <algorithm>

#include "runtime/call/call_state.h"
#include "runtime/lane/lane.h"
#include "runtime/lane/lane_internal.h"

namespace troupe {

using namespace lane_internal;

void Lane::loop() {
  take_baton();
  current_lane = this;
  while (!stopping_) {
    bool progress = turn();
    if (contenders_.load(std::memory_order_relaxed) > 0) yield_baton();
    if (runners_ > 1 && !progress) {
      // The other runner may sleep already: links that became busy since must ring it.
      if (arm()) park();
      continue;
    }
    if (progress || poll(nullptr)) continue;
    bool quiet = arm();
    if (quiet && !stopping_) {
      next_wake_ = wake_time(0);
      int timeout = timeout_until(next_wake_);
      drop_baton();
      sleep(timeout);
      take_baton();
    }
    rings_.store(false, std::memory_order_relaxed);
    disarm();
  }
  --runners_;
  spare_called_.notify_all();
  drop_baton();
  kick();  // another runner may sleep
}

void Lane::park() {
  --runners_;
  ++spares_;
  std::unique_lock lock(baton_, std::adopt_lock);
  spare_called_.wait(lock, [this] { return spares_wanted_ > 0 || stopping_; });
  if (spares_wanted_ > 0) {
    --spares_wanted_;
  } else {
    --spares_;
    ++runners_;
  }
  lock.release();
}

bool Lane::wait_handing_off(CallState& state, std::int64_t limit) {
  flush();
  if (spares_ > 0) {
    --spares_;
    ++spares_wanted_;
    spare_called_.notify_one();
  } else if (threads_.size() < static_cast<std::size_t>(kMaxSpares)) {
    threads_.emplace_back([this] { loop(); });
  } else {
    return drive_nested(state, limit);
  }
  // The spare counts as the runner in this thread's place.
  drop_baton();
  bool done = state.sleep_until_done(limit == 0 ? -1 : std::max<std::int64_t>(limit - steady_ns(), 0));
  take_baton();
  ++runners_;
  return done;
}

bool Lane::drive_nested(CallState& state, std::int64_t limit) {
  while (!state.done()) {
    bool progress = turn();
    if (state.done() || stopping_) break;
    if (contenders_.load(std::memory_order_relaxed) > 0) yield_baton();
    if (limit != 0 && steady_ns() >= limit) break;
    if (wake_driver()) continue;
    if (progress || poll(&state)) continue;
    if (arm() && !state.done() && !stopping_) {
      std::int64_t at = wake_time(limit);
      if (!options_.drivable) next_wake_ = at;
      int timeout = timeout_until(at);
      // A state of another lane rings nobody here, and in the driver another thread may take the ring.
      if (&state.lane() != this || options_.drivable) timeout = 1;
      drop_baton();
      sleep(timeout);
      take_baton();
    }
    rings_.store(options_.drivable, std::memory_order_relaxed);
    disarm();
  }
  return state.done();
}

}  // namespace troupe
