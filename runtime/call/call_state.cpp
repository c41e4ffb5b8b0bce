#include "runtime/call/call_state.h"

#include <chrono>

#include "core/base/throws_error.h"
#include "core/os/futex.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

// Stands in the place of a continuation once the state is done.
class Done final : public Runnable {
 public:
  void run() override {}
  void discard() override {}
} done_mark;

}  // namespace

CallState::CallState(Lane& lane) : lane_(&lane) {}

CallState::~CallState() {
  Runnable* next = continuation_.load(std::memory_order_acquire);
  if (next != nullptr && next != &done_mark) next->discard();
}

void CallState::set_continuation(Runnable* next) {
  Runnable* none = nullptr;
  if (continuation_.compare_exchange_strong(none, next, std::memory_order_acq_rel)) return;
  lane_->schedule_from_anywhere(next);
}

bool CallState::clear_continuation() {
  Runnable* current = continuation_.load(std::memory_order_acquire);
  while (current != nullptr && current != &done_mark) {
    if (continuation_.compare_exchange_weak(current, nullptr, std::memory_order_acq_rel)) return true;
  }
  return false;
}

bool CallState::sleep_until_done(std::int64_t nanoseconds) {
  using Clock = std::chrono::steady_clock;
  auto limit = Clock::now() + std::chrono::nanoseconds(nanoseconds);
  for (;;) {
    std::uint32_t word = word_.load(std::memory_order_acquire);
    if ((word & kStatusMask) != kPending) return true;
    if (!(word & kSleeper)) {
      word_.compare_exchange_weak(word, word | kSleeper, std::memory_order_acq_rel);
      continue;
    }
    std::int64_t left = -1;
    if (nanoseconds >= 0) {
      left = std::chrono::duration_cast<std::chrono::nanoseconds>(limit - Clock::now()).count();
      if (left <= 0) return false;
    }
    futex_wait(word_, word, left);
  }
}

void CallState::finish(Status status) {
  lane_->forget_deadline(*this);
  in_flight.peer = nullptr;
  in_flight.retained.reset();
  std::uint32_t before = word_.exchange(status, std::memory_order_acq_rel);
  if (before & kSleeper) futex_wake_all(word_);
  Runnable* next = continuation_.exchange(&done_mark, std::memory_order_acq_rel);
  if (next != nullptr) lane_->schedule(next);
}

void CallState::finish_from(Reader& reply) {
  if (done()) return;
  try {
    decode_value(reply);
  } catch (...) {
    fail(codec_error(ErrorKind::internal, "the reply could not be decoded"));
    return;
  }
  finish_value();
}

void CallState::finish_value() {
  if (!done()) finish(kValue);
}

void CallState::fail(Error error) {
  if (done()) return;
  error_ = std::make_unique<Error>(std::move(error));
  finish(kFailed);
}

}  // namespace troupe
