// The actors' host in a worker process: serves the agent (wire::Worker), makes and ends actors on the lanes,
// gives them their links. Control thread.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "core/control/executor.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/process/journals.h"
#include "runtime/process/participant.h"
#include "runtime/worker/worker_start.h"

namespace troupe {

class ActorCell;

class WorkerHost {
 public:
  WorkerHost(Executor& loop, Participant& participant, const WorkerStart& start);
  ~WorkerHost() noexcept(false);

  // Registers with the agent and serves it. `place`: where callers connect to. `give_up`: this process must
  // end, since the node would not have it or is itself lost.
  void start(Place place, wire::WorkerHost::Client agent,
             std::function<void(const std::string& why)> give_up);
  void take_link(std::uint16_t lane, std::unique_ptr<Link> link);

  Lane* lane_of(ActorId actor) const;  // null when it is not hosted here
  // When it is this one, its actors may run elsewhere by now: the process ends, and does not wait for its
  // agent to hear of it.
  void node_lost(NodeId lost);
  // Ends the actor, as after a failure of its own.
  void fail(ActorId actor, const Error& why);

 private:
  class Server;
  struct Making;
  void place(wire::Placement::Reader placement);
  void make(std::shared_ptr<Making> making);
  void lose(ActorId actor, std::uint32_t incarnation, const Error& why);
  void destroy(ActorId actor, std::uint32_t incarnation);
  void report_alive(ActorId actor, std::uint32_t incarnation, std::uint16_t lane);
  void report_failed(ActorId actor, std::uint32_t incarnation, const Error& error);
  void report_later();
  void send_reports();

  struct Report {
    ActorId actor;
    std::uint32_t incarnation;
    std::uint16_t lane;
    std::shared_ptr<const Error> failure;
  };

  Executor& loop_;
  ControlPlane& plane_;
  Supervisor& supervisor_;
  std::vector<std::unique_ptr<Lane>>& lanes_;
  WorkerStart start_;
  Place place_;
  kj::Maybe<wire::WorkerHost::Client> host_;
  std::function<void(const std::string& why)> give_up_;
  std::vector<Report> reports_;
  bool report_posted_ = false;
  std::size_t next_lane_ = 0;
  struct Hosted {
    std::uint16_t lane;
    std::uint32_t incarnation;
    std::shared_ptr<std::atomic<bool>>
        dropped;  // set before its end is posted: it may be in its constructor still
  };
  bool hosts(ActorId actor, std::uint32_t incarnation) const;
  std::unordered_map<ActorId, Hosted> hosted_;
  Journals journals_;
  std::set<std::pair<ActorId, std::uint32_t>> opening_;  // their journals are being read
};

}  // namespace troupe
