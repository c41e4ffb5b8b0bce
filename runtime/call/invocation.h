// One call on its way through an actor: arguments decoded, waiting in the mailbox or being run, then its
// result on the way back. Typed subclasses come from templates (actors/troupe/detail/method.h).
//
// Owner: the actor's mailbox, then the actor while it runs; it disposes of itself when its reply has left.
// Thread: the actor's lane. A call from another lane of the process travels as a task, both ways.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/pool.h"
#include "core/base/ref.h"
#include "core/codec/buffer.h"
#include "runtime/call/call_state.h"
#include "runtime/call/frame.h"
#include "runtime/call/once_call.h"
#include "runtime/lane/task.h"

namespace troupe {

class ActorCell;
class Peer;

class Invocation : public LaneTask, public Pooled {
 public:
  virtual ~Invocation();

  // Runs the method on `actor`; ends in finished(), at once or later (futures, coroutines, streams).
  virtual void start(void* actor) = 0;
  // The caller is no longer interested, or the actor ends: a suspended coroutine is destroyed.
  virtual void abandon() = 0;
  // After it has finished with a value:
  virtual void encode_result(Writer& to) = 0;  // for a caller in another process
  virtual void deliver(CallState& state) = 0;  // for one in this process: stores the value, without finishing
  // Streams: the consumer takes `more` items.
  virtual void grant(std::uint32_t) {}
  virtual bool pausable() const { return false; }  // a stream, whose pauses let other calls run

  // Called by the subclass, on the actor's lane, exactly once.
  void finished();
  void failed(Error error);
  void not_here();  // the target's incarnation is not on this lane
  // A stream's next item.
  void send_item(Writer& item);

  // ---- set by the runtime ----
  ActorCell* cell = nullptr;
  Invocation* next = nullptr;  // in the mailbox
  // Who waits: a caller behind a link, or a state of this process, or nobody.
  Peer* peer = nullptr;
  std::uint64_t id = 0;
  std::uint64_t call_number = 0;  // of a caller in this process
  Ref<CallState> state;
  bool one_way = false;
  bool cancelled = false;
  bool running = false;
  bool shares = false;  // a caller behind a link reads the same object store
  std::uint32_t credit = 0;
  std::uint16_t method = 0;
  std::uint32_t incarnation = 0;  // 0: any
  ActorId target;
  std::int64_t deadline = 0;  // steady nanoseconds
  std::uint64_t trace = 0;
  HopList chain;                   // callers that may be waiting, outermost first
  std::unique_ptr<OnceCall> once;  // to a durable actor

  void run_task() override;  // arrival at the actor's lane, or the result's arrival at the caller's
  void drop_task() override;
  // At the target's lane, from a caller in this process; false, and nothing done: that incarnation is not
  // here.
  bool try_arrive(Lane& here);
  // Sends the outcome to whoever waits and disposes of this.
  void reply();

 private:
  friend class ActorCell;
  friend class DurableActor;
  void complete();  // on the caller's lane
  bool returning_ = false;
  bool gone_ = false;
  std::unique_ptr<Error> error_;
};

}  // namespace troupe
