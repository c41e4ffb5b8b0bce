// The lane of a driver: threads that wait take it over, and a background thread sees to it meanwhile
// (lane.h).
#include <algorithm>

#include "core/os/cpu.h"
#include "core/os/futex.h"
#include "runtime/call/call_state.h"
#include "runtime/lane/lane.h"
#include "runtime/lane/lane_internal.h"

namespace troupe {

using namespace lane_internal;

bool Lane::wait(CallState& state, std::int64_t limit) {
  if (state.done()) return true;
  if (current_lane != nullptr) {
    Lane& here = *current_lane;
    return here.options_.hand_off ? here.wait_handing_off(state, limit) : here.drive_nested(state, limit);
  }
  if (options_.drivable) {
    inside_.fetch_add(1);
    bool done = drive(state, limit);
    inside_.fetch_sub(1);  // the lane may be gone from here on
    return done;
  }
  return state.sleep_until_done(limit == 0 ? -1 : std::max<std::int64_t>(limit - steady_ns(), 0));
}

bool Lane::drive(CallState& state, std::int64_t limit) {
  if (driven_.exchange(true)) {
    sleepers_.fetch_add(1);
    // Whoever leaves the lane next arms it for us; if it has left already, the background thread must look.
    if (!driven_.load() && !kicked_.exchange(true)) kick();
    bool done = sleep_beside(state, limit);
    sleepers_.fetch_sub(1);
    return done;
  }
  attended_.fetch_add(1, std::memory_order_relaxed);
  take_baton();
  current_lane = this;
  disarm();
  ++quick_drives_;
  while (!state.done() && !stopping_) {
    bool progress = turn();
    if (state.done()) break;
    if (contenders_.load(std::memory_order_relaxed) > 0) yield_baton();
    if (limit != 0 && steady_ns() >= limit) break;
    if (progress || poll(&state)) continue;
    quick_drives_ = 0;
    driver_sleeps_on_ = &state;
    driver_naps_.fetch_add(1);
    // Another thread may have finished it while this one had yielded.
    if (arm() && !state.done() && !stopping_) {
      int timeout = timeout_until(wake_time(limit));
      drop_baton();
      sleep(timeout);
      take_baton();
    }
    driver_sleeps_on_ = nullptr;
    driver_naps_.fetch_add(1);
    driver_naps_.notify_one();
    disarm();
  }
  if (stopping_) fail_at_the_end(state);
  leave_driving();
  return state.done();
}

// Calls fail when the lane stops, and wake who sleeps on them; other futures tell nobody: this thread looks.
bool Lane::sleep_beside(CallState& state, std::int64_t limit) {
  constexpr std::int64_t kLook = 100'000'000;
  for (;;) {
    std::int64_t left = limit == 0 ? kLook : std::clamp<std::int64_t>(limit - steady_ns(), 0, kLook);
    if (state.sleep_until_done(left)) return true;
    if (limit != 0 && steady_ns() >= limit) return false;
    if (!stopping_) continue;
    take_baton();
    current_lane = this;
    fail_at_the_end(state);
    current_lane = nullptr;
    drop_baton();
    return state.done();
  }
}

void Lane::fail_at_the_end(CallState& state) {
  if (state.done() || &state.lane() != this) return;
  turn();
  state.fail(Error(ErrorKind::cancelled, "the process ends"));
}

// The ring is for the driver alone: this thread stays out of epoll until the other is up.
bool Lane::wake_driver() {
  if (driver_sleeps_on_ == nullptr || !driver_sleeps_on_->done()) return false;
  std::uint32_t nap = driver_naps_.load();
  drop_baton();
  kick();
  driver_naps_.wait(nap);
  take_baton();
  return true;
}

void Lane::leave_driving() {
  bool call = !dirty_.empty() || !ready_.empty() || stopping_;
  bool light = light_.load(std::memory_order_relaxed);
  // Who comes this often without sleeping spares the doorbells once the background thread knows.
  if (!light && quick_drives_ == kQuickDrives) call = true;
  if (!light || sleepers_.load() > 0) call |= !arm();
  rings_.store(true, std::memory_order_seq_cst);
  call |= !tasks_.empty();
  if (!deadlines_.empty() && (next_wake_ == 0 || deadlines_.next() < next_wake_)) call = true;
  current_lane = nullptr;
  driven_.store(false);
  drop_baton();
  if (call && !kicked_.exchange(true)) kick();
}

// Light sleep: neither doorbells nor readiness wake it, since threads that come often see to those
// themselves; a kick does, and so does a millisecond in which none of them came.
void Lane::doze(std::uint64_t seen, std::uint32_t kicks) {
  for (;;) {
    futex_wait(kicks_, kicks, 1'000'000);
    std::uint32_t now = kicks_.load();
    kicked_.store(false);
    std::uint64_t attended = attended_.load(std::memory_order_relaxed);
    if (stopping_ || now != kicks || attended == seen) return;
    seen = attended;
  }
}

void Lane::background() {
  take_baton();
  std::uint64_t seen = 0;
  while (!stopping_) {
    current_lane = this;
    std::uint32_t kicks = kicks_.load();  // one that comes after this is not slept through
    disarm();
    while (turn() && !stopping_) {
      if (contenders_.load(std::memory_order_relaxed) > 0) yield_baton();
    }
    if (stopping_) break;
    if (wake_driver()) continue;
    std::uint64_t attended = attended_.load(std::memory_order_relaxed);
    bool light = attended != seen && quick_drives_ >= kQuickDrives && sleepers_.load() == 0;
    if (!light) quick_drives_ = 0;
    seen = attended;
    light_.store(light, std::memory_order_relaxed);
    bool quiet = driver_sleeps_on_ != nullptr || !light ? arm() : tasks_.empty() && ready_.empty();
    rings_.store(true, std::memory_order_seq_cst);
    current_lane = nullptr;
    if (!quiet || !tasks_.empty()) {
      if (contenders_.load(std::memory_order_relaxed) > 0) yield_baton();
      continue;
    }
    next_wake_ = wake_time(0);
    int timeout = timeout_until(next_wake_);
    drop_baton();
    if (light) {
      doze(seen, kicks);
    } else {
      sleep(timeout);
    }
    take_baton();
  }
  light_.store(false);
  current_lane = nullptr;
  drop_baton();
  kick();  // the driver may sleep
}

}  // namespace troupe
