#include "troupe/future.h"

#include "core/base/clock.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"
#include "runtime/process/process.h"
#include "troupe/stream.h"

namespace troupe::detail {

bool wait(CallState& state, std::int64_t limit_ns) {
  ActorCell* cell = current().cell;
  if (cell == nullptr) return state.lane().wait(state, limit_ns);
  Current here = current();
  cell->waits_for(&state);
  bool done = state.lane().wait(state, limit_ns);
  cell->waits_for(nullptr);
  // Others may have run on this thread meanwhile.
  current() = here;
  return done;
}

void cancel(CallState& state) {
  run_on(state.lane(), [state = Ref<CallState>::share(&state)] {
    state->lane().routes().abandon(*state, Error(ErrorKind::cancelled, "the caller cancelled the call"));
  });
}

Lane& default_lane() { return Process::get().default_lane(); }

void on_lane(Lane& lane, LaneTask* task) { lane.post(task); }

bool holds(const Lane& lane) { return Lane::current() == &lane; }

std::int64_t limit_after(std::chrono::nanoseconds time) { return deadline_after(time); }

void note_waiting(CallState* state) {
  if (ActorCell* cell = current().cell) cell->waits_for(state);
}

Error failure_of(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const ThrowsError& e) {
    return e.error();
  } catch (...) {
    return current_error();
  }
}

void Resume::run() {
  std::coroutine_handle<> handle = handle_;
  Current as = as_;
  delete this;
  if (!handle) return;
  Current before = std::exchange(current(), as);
  if (as.cell != nullptr) as.cell->enter();
  handle.resume();
  current() = before;
  if (as.cell != nullptr) as.cell->leave();
}

void FinalAwaiter::schedule_here(Hook* hook) noexcept {
  hook->queued = true;
  Lane::current()->schedule(hook);
}

void grant_credit(CallState& state, std::uint32_t items) {
  run_on(state.lane(), [state = Ref<CallState>::share(&state), items] {
    if (!state->done()) state->lane().routes().grant(*state, items);
  });
}

}  // namespace troupe::detail
