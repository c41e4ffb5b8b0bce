// The control store's core: (state, event, now) → (state', actions). No I/O, no clock, no randomness; the
// same events give the same actions.
//
// Owner: the head server. Thread: the control thread. Everything in memory; the owner writes what Persist
// names and releases each action when the batch it depends on (Action::after) is durable. Errors go to the
// requester as answers; an event never fails.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <unordered_map>

#include "gcs/control_store/actions.h"
#include "gcs/control_store/actor_machine.h"
#include "gcs/control_store/events.h"
#include "gcs/control_store/records.h"
#include "gcs/placement/placement.h"

namespace troupe::gcs {

class ControlStore {
 public:
  struct Options {
    std::size_t dead_actors = 1000;  // records kept of what has ended
    std::size_t dead_jobs = 100;
    std::size_t dead_nodes = 100;
    Time back_off = 100;  // before the second restart in a row; doubles
    Time most_back_off = 30'000;
    Time steady = 30'000;        // alive that long: the next failure counts as the first
    Time grace = 30'000;         // after a restart of the head: until nodes and drivers must be back
    Time unknown_actor = 5'000;  // resolve waits that long for an actor whose spawn has not arrived
    std::uint64_t id_block = 1000;
  };

  explicit ControlStore(Options options);
  ControlStore() : ControlStore(Options{}) {}
  ControlStore(const ControlStore&) = delete;

  void restore(Snapshot snapshot, Time now, Actions& out);  // once, before any event
  void apply(Event event, Time now, Actions& out);
  std::optional<Time> wake_at() const;  // a Tick is due then

  // Turns: all changes between two calls form one batch. After a batch that could not be written, its keys
  // are given back and belong to the current turn.
  void begin_turn(Turn turn) { turn_ = turn; }
  void rewrite(Table table, std::uint64_t id, Actions& out) { persist(table, id, out); }

  // Read access; pointers hold until the next event.
  const ActorRecord* actor(ActorId id) const;
  const NodeRecord* node(NodeId id) const;
  const JobRecord* job(JobId id) const;
  const ProcessRecord* process(ProcessId id) const;
  std::uint64_t counter(Counter counter) const { return limits_[static_cast<int>(counter)]; }
  const std::map<NodeId, NodeRecord>& nodes() const { return nodes_; }
  const std::map<JobId, JobRecord>& jobs() const { return jobs_; }
  const std::unordered_map<ActorId, ActorRecord>& actors() const { return actors_; }
  const Placement& placement() const { return placement_; }
  ActorId named(const std::string& name) const;
  NodeId node_named(const std::string& name) const;  // of a node that is not dead
  ActorState state_of(const ActorRecord& record) const;
  std::string waiting_reason(const ActorRecord& record) const;
  bool wants(const Place& place) const;  // whether the command is still to be given
  // Incarnations that have ended since the last call, for those who follow them (groups).
  std::vector<IncarnationOver> take_over() { return std::exchange(over_, {}); }
  std::uint64_t count(Phase phase) const { return counts_[static_cast<int>(phase)]; }
  std::uint64_t events() const { return events_; }  // applied so far: the tables change with them only
  std::string check() const;                        // empty, or which invariant is broken

 private:
  struct Waiter {
    RequestId request;
    ProcessId session;
    std::uint32_t after;
    Time deadline;  // 0: none
  };
  struct Doomed {
    ActorId actor;
    Cause why;
  };
  enum class Lease : std::uint8_t { gone, held };

  // One per event.
  void on(NodeJoin&, Actions&);
  void on(NodeLost&, Actions&);
  void on(NodeRemove&, Actions&);
  void on(NodeDrain&, Actions&);
  void on(JobOpen&, Actions&);
  void on(NodeReturnFailed&, Actions&);
  void on(JobReturnFailed&, Actions&);
  void on(JobEnd&, Actions&);
  void on(SessionOpen&, Actions&);
  void on(SessionClosed&, Actions&);
  void on(Spawn&, Actions&);
  void on(Resolve&, Actions&);
  void on(Find&, Actions&);
  void on(Kill&, Actions&);
  void on(ActorAlive&, Actions&);
  void on(ActorFailed&, Actions&);
  void on(ProcessEnded&, Actions&);
  void on(ActorDestroyed&, Actions&);
  void on(JobEndedOn&, Actions&);
  void on(Acknowledge&, Actions&);
  void on(Tick&, Actions&);
  void on(Shutdown&, Actions&);

  // Actors.
  SpawnResult spawn_one(ProcessId session, const ProcessRecord& from, SpecPtr spec, Turn& after,
                        Actions& out);
  bool advance(ActorRecord& record, Trigger trigger, Actions& out);
  void incarnation_over(ActorRecord& record, Cause why, Lease lease, bool may_restart, Actions& out);
  bool restart_left(ActorRecord& record) const;
  void doom(ActorRecord& record, Cause why, Actions& out);
  void doom_the_doomed(Actions& out);
  void order_destroy(ActorRecord& record, Actions& out);
  void release_lease(ActorRecord& record, Actions& out);
  void requeue(ActorRecord& record);
  void enqueue(ActorRecord& record);
  void begin_incarnation(ActorRecord& record, Grant grant, Actions& out);
  void send_place(const ActorRecord& record, Actions& out);
  void start_job(NodeId node, JobId job, Actions& out);
  void announce(ActorRecord& record, Actions& out);
  void bury_if_gone(ActorRecord& record, Actions& out);
  void settle(Actions& out);
  bool answers(const ActorRecord& record, std::uint32_t after) const;
  Cause failure(ErrorKind kind, std::string message, const ActorRecord& record) const;

  // Processes, jobs, nodes.
  void process_over(ProcessId id, Cause why, Actions& out);
  void end_job(JobId id, const std::string& reason, Actions& out);
  void end_job_on(NodeId node, JobId job, Actions& out);
  void close_job_if_gone(JobId id, Actions& out);
  void lose_node(NodeId id, const std::string& reason, Actions& out);
  void return_node(NodeId id, NodeRecord& node, NodeJoin& join, Actions& out);
  void forget_awaited(Actions& out);
  void restore_actor(StoredActor& stored, std::vector<ActorId>& orphans, Actions& out);
  void link_to_owner(StoredActor& stored, std::vector<ActorId>& orphans);

  std::uint64_t next_id(Counter counter, Actions& out);
  void persist(Table table, std::uint64_t id, Actions& out);
  void persist(ActorRecord& record, Actions& out);
  void reply(RequestId request, Answer answer, Turn after, Actions& out);
  void trim(Actions& out);

  Options options_;
  Time now_ = 0;
  Turn turn_ = 1;
  std::uint64_t events_ = 0;
  std::uint64_t next_[kCounters] = {1, 1, 1};
  std::uint64_t limits_[kCounters] = {1, 1, 1};
  std::map<NodeId, NodeRecord> nodes_;
  std::map<JobId, JobRecord> jobs_;
  std::unordered_map<ProcessId, ProcessRecord> processes_;
  std::unordered_map<ActorId, ActorRecord> actors_;
  std::unordered_map<std::string, ActorId> names_;
  std::unordered_map<ActorId, std::vector<Waiter>> waiters_;
  std::uint64_t counts_[5] = {};
  std::set<std::pair<Time, ActorId>> wakes_;  // back-offs, and waiters for unknown actors
  std::set<Time> deadlines_;                  // of awaited nodes and jobs
  std::vector<Doomed> doomed_;
  std::vector<IncarnationOver> over_;
  ProcessId
      last_told_;  // of a driver that hears how its actors end, though its job has ended with this event
  std::deque<ActorId> dead_actors_;
  std::deque<JobId> dead_jobs_;
  std::deque<NodeId> dead_nodes_;
  Placement placement_;
};

}  // namespace troupe::gcs
