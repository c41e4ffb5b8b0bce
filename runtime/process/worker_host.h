// The actors' host in a worker process: serves the agent (wire::Worker), makes and ends actors on the lanes,
// takes links. Control thread. When the agent's channel ends, the worker kills its own process group: nothing
// it or its actors started survives.
#pragma once

#include <memory>
#include <vector>

#include "core/control/acceptor.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/process/control_plane.h"
#include "runtime/worker/worker_start.h"

namespace troupe {

class ActorCell;
class Supervisor;

class WorkerHost {
 public:
  WorkerHost(ControlLoop& loop, ControlPlane& plane, Supervisor& supervisor,
             std::vector<std::unique_ptr<Lane>>& lanes, const WorkerStart& start);
  ~WorkerHost() noexcept(false);

  // Listens, registers with the agent, serves. Failures end the process with a message.
  void start();

  Lane* lane_of(ActorId actor) const;  // null when it is not hosted here
  // Ends the actor, as after a failure of its own.
  void fail(ActorId actor, const Error& why);

 private:
  class Server;
  void listen();
  void place(wire::Placement::Reader placement);
  void destroy(ActorId actor, std::uint32_t incarnation);
  void report_alive(ActorId actor, std::uint32_t incarnation, std::uint16_t lane);
  void report_failed(ActorId actor, std::uint32_t incarnation, const Error& error);
  void report_later();
  void send_reports();
  void take_link(std::uint16_t lane, std::unique_ptr<Link> link);

  struct Report {
    ActorId actor;
    std::uint32_t incarnation;
    std::uint16_t lane;
    std::shared_ptr<const Error> failure;
  };

  ControlLoop& loop_;
  ControlPlane& plane_;
  Supervisor& supervisor_;
  std::vector<std::unique_ptr<Lane>>& lanes_;
  WorkerStart start_;
  Place place_;
  kj::Own<RpcConnection> agent_;
  kj::Maybe<wire::WorkerHost::Client> host_;
  std::unique_ptr<Acceptor> unix_, tcp_;
  std::vector<Report> reports_;
  bool report_posted_ = false;
  std::size_t next_lane_ = 0;
  struct Hosted {
    std::uint16_t lane;
    std::uint32_t incarnation;
  };
  std::unordered_map<ActorId, Hosted> hosted_;
};

}  // namespace troupe
