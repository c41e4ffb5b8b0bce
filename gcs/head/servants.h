// The head's servers. Each looks at the running head through a weak pointer and fails its calls when that is
// gone.
//
// Owner: the peer that holds the capability. Thread: the control thread. Lifetime: the destruction of a
// MembershipServant or SessionServant is the notice that its peer is gone. Calls that wait for news may be
// cancelled, so that they do not keep their server alive when the connection ends; those that change
// something may not.
#pragma once

#include <memory>

#include "core/protocol/cluster.capnp.h"
#include "gcs/head/head_state.h"

namespace troupe::gcs {

class Servant {
 protected:
  explicit Servant(std::weak_ptr<HeadState> head) : head_(std::move(head)) {}
  ~Servant() = default;
  HeadState& head() const;  // throws when it is gone

  std::weak_ptr<HeadState> head_;
};

class HeadServant final : public wire::Head::Server, private Servant {
 public:
  explicit HeadServant(std::weak_ptr<HeadState> head) : Servant(std::move(head)) {}
  kj::Promise<void> join(JoinContext context) override;
  kj::Promise<void> openJob(OpenJobContext context) override;
  kj::Promise<void> admin(AdminContext context) override;
};

class MembershipServant final : public wire::Membership::Server, private Servant {
 public:
  MembershipServant(std::weak_ptr<HeadState> head, NodeId node, const NodePeer* peer)
      : Servant(std::move(head)), node_(node), peer_(peer) {}
  ~MembershipServant();
  kj::Promise<void> report(ReportContext context) override;
  kj::Promise<void> heartbeat(HeartbeatContext context) override;
  kj::Promise<void> workerSession(WorkerSessionContext context) override;
  kj::Promise<void> deadActors(DeadActorsContext context) override;
  kj::Promise<void> nodes(NodesContext context) override;

 private:
  void report_one(wire::NodeEvent::Reader event);

  NodeId node_;
  const NodePeer* peer_;  // compared only
};

class SessionServant final : public wire::Session::Server, private Servant {
 public:
  SessionServant(std::weak_ptr<HeadState> head, ProcessId process, std::uint64_t generation)
      : Servant(std::move(head)), process_(process), generation_(generation) {}
  ~SessionServant();
  kj::Promise<void> spawn(SpawnContext context) override;
  kj::Promise<void> resolve(ResolveContext context) override;
  kj::Promise<void> find(FindContext context) override;
  kj::Promise<void> kill(KillContext context) override;
  kj::Promise<void> nodes(NodesContext context) override;
  // journal_servant.cpp
  kj::Promise<void> journalLoad(JournalLoadContext context) override;
  kj::Promise<void> journalAppend(JournalAppendContext context) override;
  kj::Promise<void> journalSnapshot(JournalSnapshotContext context) override;
  // group_servant.cpp
  kj::Promise<void> groupJoin(GroupJoinContext context) override;
  kj::Promise<void> groupPost(GroupPostContext context) override;
  kj::Promise<void> groupResume(GroupResumeContext context) override;
  kj::Promise<void> groupLeave(GroupLeaveContext context) override;

 private:
  // Whether this is the process of the actor's current incarnation: an older one writes nothing.
  bool is_current(ActorId actor, std::uint32_t incarnation) const;
  // Rejected as that, once the store has confirmed this head: the actor ends for it.
  kj::Promise<void> not_current(ActorId actor, std::uint32_t incarnation) const;
  ProcessId process_;
  std::uint64_t generation_;
};

class AdminServant final : public wire::Admin::Server, private Servant {
 public:
  explicit AdminServant(std::weak_ptr<HeadState> head) : Servant(std::move(head)) {}
  kj::Promise<void> status(StatusContext context) override;
  kj::Promise<void> nodes(NodesContext context) override;
  kj::Promise<void> jobs(JobsContext context) override;
  kj::Promise<void> actors(ActorsContext context) override;
  kj::Promise<void> kill(KillContext context) override;
  kj::Promise<void> logs(LogsContext context) override;
  kj::Promise<void> shutdown(ShutdownContext context) override;
};

}  // namespace troupe::gcs
