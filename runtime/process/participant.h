// What drivers and workers have in common: lanes, the control plane and the supervisor, each told of the
// others. Knows neither threads nor sockets, so that a simulated process is one as well.
//
// Owner: Process, or a simulated process. Thread: the control thread, but for the members that say "any".
// Lifetime: lanes are added before start and stopped before stop; what is posted after stop is dropped,
// though the executor still runs it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/control/executor.h"
#include "runtime/process/control_plane.h"
#include "runtime/process/supervisor.h"

namespace troupe {

class WorkerHost;

class Participant final : public Directory {
 public:
  struct Outside {
    std::function<kj::Promise<kj::Own<std::unique_ptr<Link>>>(const Place&, const LinkIdentity& self, Lane&)>
        connect;
    // A failure of this program's own actors that nobody dealt with: a driver ends.
    std::function<void(const Error&)> fail;
  };

  void start(Executor& loop, LinkIdentity self, Outside outside);
  void stop();
  // The head has given the job and the process their numbers.
  void identify(JobId job, ProcessId process);
  ControlPlane& plane() { return *plane_; }
  Supervisor& supervisor() { return *supervisor_; }
  std::vector<std::unique_ptr<Lane>>& lanes() { return lanes_; }
  void host_on(WorkerHost* host) { host_ = host; }  // a worker's

  // ---- any thread, once started ----
  const LinkIdentity& identity() const { return self_; }
  ActorId spawn(SpawnRequest request);
  ActorId spawn_named(SpawnRequest request, Answer<ActorId> answer);  // the number it asks for
  void find(const std::string& name, const std::string& class_name, Answer<ActorId> answer);
  void kill(ActorId actor, bool no_restart, Answer<bool> answer);
  void nodes(Answer<std::vector<NodeSummary>> answer);
  void on_failure(ActorId owner, FailureHandler handler);
  std::uint64_t new_group();
  void join_group(GroupJoinRequest request, GroupJoined joined, GroupBroken broken);
  void post_to_group(GroupPostRequest request, GroupPosted posted);
  void leave_group(std::uint64_t group, ActorId actor, std::uint32_t incarnation);
  void resolve(ActorId actor, std::uint32_t after, Lane& lane) override;
  void connect(std::shared_ptr<const Place> place, Lane& lane) override;
  void observed(ActorId actor) override;
  ProcessId self() const override { return self_.process; }
  Lane* lane_at(std::uint16_t index) override;

 private:
  template <class F>
  void post(F f) {
    loop_->post([this, f = std::move(f)]() mutable {
      if (plane_) f();
    });
  }
  void flush_spawns();
  void supervise(SpawnRequest& request);
  ActorId next_number(std::atomic<std::uint64_t>& counter);
  ControlPlane::Hooks hooks();
  Supervisor::Hooks supervision();
  void fail_owner(ActorId owner, Error why);

  Executor* loop_ = nullptr;
  Outside outside_;
  LinkIdentity self_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<ControlPlane> plane_;
  WorkerHost* host_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<std::uint64_t> spawned_{0}, groups_{0};

  std::mutex mutex_;  // guards what follows
  std::vector<SpawnRequest> spawns_;
  bool spawn_posted_ = false;
};

}  // namespace troupe
