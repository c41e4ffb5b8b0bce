// An actor in its worker: the user's object, its mailbox, and what runs. One call at a time unless the class
// was declared concurrent; a stream that waits for its consumer lets other calls run.
//
// Owner: its lane's table, plus whatever is running. Thread: its lane.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "runtime/call/class_table.h"
#include "runtime/lane/runnable.h"

namespace troupe {

class CallState;
class DurableActor;
class Invocation;
class Lane;
struct Hop;

// What troupe::context() tells; kept once per actor.
struct ActorIdentity {
  ActorId id;
  std::uint32_t incarnation = 0;
  JobId job;
  NodeId node;
  std::string name, node_name;
  std::vector<std::uint16_t> gpus;
};

class ActorCell final : public Runnable {
 public:
  static constexpr std::size_t kMailboxLimit = 1 << 20;
  static constexpr int kRunsInARow = 64;

  ActorCell(Lane& lane, const ClassTable& table, ActorIdentity identity);
  ~ActorCell();

  // Constructs the user's object. The error carries what the constructor threw.
  Result<void> construct(Reader& args);
  // Makes the actor durable; after construct, before the first call.
  void make_durable(std::shared_ptr<DurableActor> durable) { durable_ = std::move(durable); }
  DurableActor* durable() const { return durable_.get(); }
  void replay(Invocation* call);  // runs a call of the journal again
  // No further calls: what waits fails with `why`, what is suspended is abandoned, the object is destroyed as
  // soon as nothing runs on it. The owner then releases the cell.
  void end(const Error& why);
  void release();

  // Takes the invocation; it may be refused at once (overloaded, a cycle, the wrong incarnation).
  void accept(Invocation* call);
  void run() override;
  void discard() override {}
  // The caller lost interest: one that waits is dropped, one that runs sees context().cancelled().
  void cancel(Invocation& call);
  // By the number of a call made in this process.
  void cancel(std::uint64_t call_number);
  void grant(std::uint64_t call_number, std::uint32_t items);

  // From Invocation: it has finished; from streams: it waits for credit, or goes on.
  void done(Invocation* call);
  void paused(Invocation* call);
  void resumed(Invocation* call);

  // The running method waits for `state` (null: no longer): calls that come back along its chain can never be
  // served and fail as a cycle.
  void waits_for(CallState* state);

  // Brackets user code of this actor that runs outside start(): coroutines, continuations.
  void enter() { ++inside_; }
  void leave();

  const ActorIdentity& identity() const { return *identity_; }
  const ClassTable& table() const { return table_; }
  Lane& lane() const { return lane_; }
  void* object() const { return object_; }
  bool ended() const { return ended_; }
  bool busy() const { return active_ > 0; }

 private:
  Invocation* find_local(std::uint64_t call_number) const;
  void wake();
  void start(Invocation* call);
  void refuse(Invocation* call, Error error);
  bool closes_cycle(const Invocation& call) const;
  Error cycle_error(const Invocation& call) const;
  void finish_end();

  Lane& lane_;
  const ClassTable& table_;
  std::unique_ptr<ActorIdentity> identity_;
  void* object_ = nullptr;
  Invocation* head_ = nullptr;
  Invocation* tail_ = nullptr;
  std::vector<Invocation*> started_;  // running, suspended or paused
  std::uint32_t waiting_ = 0;         // in the mailbox
  int active_ = 0;                    // count against the class's concurrency
  CallState* awaited_ = nullptr;
  bool scheduled_ = false;
  bool ended_ = false;
  Error end_;
  bool released_ = false;
  int inside_ = 0;                         // frames of this actor's code on a stack
  std::shared_ptr<DurableActor> durable_;  // null: it is not
};

// The actor, call and lane on whose behalf this thread runs; saved and restored around user code.
struct Current {
  ActorCell* cell = nullptr;
  Invocation* call = nullptr;
};
Current& current();

}  // namespace troupe
