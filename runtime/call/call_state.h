// What a Future and the runtime share of one call: the result, once it is there, and who waits for it.
//
// Owner: counted references (the Future, the lane's table of calls in flight, a queued call). Thread:
// finished only under the baton of its lane; looked at, waited for and given a continuation by any thread. A
// state is finished exactly once; later attempts are ignored, so a late reply after a deadline does no harm.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/base/ref.h"
#include "core/codec/buffer.h"
#include "runtime/lane/runnable.h"

namespace troupe {

class Lane;
class Peer;
struct QueuedCall;

class CallState : public Pooled {
 public:
  enum Status : std::uint32_t { kPending = 0, kValue = 1, kFailed = 2 };

  explicit CallState(Lane& lane);
  CallState(const CallState&) = delete;

  void retain() { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  Lane& lane() const { return *lane_; }
  Status status() const { return static_cast<Status>(word_.load(std::memory_order_acquire) & kStatusMask); }
  bool done() const { return status() != kPending; }
  const Error& error() const { return *error_; }  // when failed

  // Runs `next` on the state's lane once it is done; at most one. Any thread.
  void set_continuation(Runnable* next);
  // Before it is done: takes the continuation back; false when it was scheduled already. On the lane.
  bool clear_continuation();

  // A thread that neither holds nor may take the baton sleeps here until done or `nanoseconds` have passed.
  bool sleep_until_done(std::int64_t nanoseconds);

  // Under the baton, by someone who holds a reference: a waiting thread drops its own as soon as it sees the
  // status. Decodes the reply and finishes; a reply that does not decode fails the state.
  void finish_from(Reader& reply);
  void finish_value();  // the derived class has stored the value
  void fail(Error error);
  // Streams take items; others ignore them.
  virtual void take_item(Reader&) {}

  // Fields of the runtime, used under the baton only.
  struct InFlight {
    Peer* peer = nullptr;    // whose table holds the call, or null
    std::uint64_t id = 0;    // the number in that table
    std::uint64_t call = 0;  // unique in this process: names the call in chains, orders it; 0: no call
    ActorId target;
    std::uint32_t timer = 0;               // place in the lane's heap + 1
    std::unique_ptr<QueuedCall> retained;  // to send it again, while retries are left
  };
  InFlight in_flight;

 protected:
  virtual ~CallState();
  virtual void decode_value(Reader& reply) = 0;

 private:
  static constexpr std::uint32_t kStatusMask = 3, kSleeper = 4;
  void finish(Status status);

  std::atomic<std::uint32_t> count_{1};
  std::atomic<std::uint32_t> word_{kPending};
  std::atomic<Runnable*> continuation_{nullptr};
  Lane* lane_;
  std::unique_ptr<Error> error_;
};

}  // namespace troupe
