// The durable half of an actor's cell: between calls and core on one side, core and journal on the other.
//
// A call's turn comes: begin() lets it run, after its record has joined the open block, or settles it
// without. It has run: finished() remembers its outcome and holds it back. The cell pauses: after_runs()
// hands the open block to the journal, unless one is under way. The journal has it: what is held up to there
// leaves, in order.
//
// Owner: the cell and the journal's work under way. Thread: the cell's lane, except for the JournalListener
// part, which posts to it. When the incarnation ends, callers of what is held are told that it is gone; they
// ask the next one, which knows what has run.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "runtime/durable/core.h"
#include "runtime/durable/journal.h"

namespace troupe {

class ActorCell;
class Invocation;
class Lane;

class DurableActor final : public JournalListener, public std::enable_shared_from_this<DurableActor> {
 public:
  // `lost` is called once, on the lane, when the incarnation must end.
  using Lost = std::function<void(const Error& why)>;
  DurableActor(ActorCell& cell, Lane& lane, Durability plan, std::shared_ptr<Journal> journal, Lost lost);

  // Gives the constructed object the state of the earlier incarnation. Before the cell takes calls.
  Result<void> recover(const Recovered& from);
  bool replaying() const { return replaying_; }
  void request_snapshot() { core_.request_snapshot(); }
  const DurableCore& core() const { return core_; }

  // ---- from the cell ----
  void before_run();             // a call of a longer run follows: what has gathered for a while is written
  bool begin(Invocation* call);  // false: it is settled
  void finished(Invocation* call);
  void after_runs();
  void end();     // what is held goes back as gone
  void detach();  // the cell goes

  // ---- from the journal ----
  void on_appended(std::uint64_t last) override;
  void on_stalled(Error why) override;
  void on_snapshot(Result<void> outcome) override;
  void on_lost(Error why) override;

 private:
  struct Held {
    std::uint64_t position;  // durable first
    Invocation* call;
    RememberedPtr answer;  // null: the call carries its own
  };
  Result<void> replay(const BlockView& block, std::uint64_t after);
  RememberedPtr outcome_of(Invocation& call);
  void send(Held held);
  void release();
  void fail_held(const Error& why);
  void snapshot_if_due();
  void pump();
  template <class F>
  void on_lane(F f);

  ActorCell* cell_;  // null: the incarnation has ended
  Lane& lane_;
  DurableCore core_;
  std::shared_ptr<Journal> journal_;
  Lost lost_;
  std::deque<Held> held_;
  std::string name_;
  std::uint64_t opened_ = 0;  // time stamp counter at the open block's first record
  bool replaying_ = false;
  bool ended_ = false;
};

}  // namespace troupe
