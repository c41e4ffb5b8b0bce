// What happens to the control store. Every event is idempotent and may come in any order.
#pragma once

#include <variant>

#include "gcs/control_store/types.h"

namespace troupe::gcs {

// Nodes.
struct NodeJoin {
  RequestId request = 0;
  NodeInfo info;
  std::vector<JobId> jobs = {};  // that an agent which comes back still runs
  NodeId was = {};               // the node it takes itself for; none: it runs nothing
};
struct NodeLost {
  NodeId node;
  std::string reason;
};
// A node or a driver that came back could not be told so: it is awaited again.
struct NodeReturnFailed {
  NodeId node;
};
struct JobReturnFailed {
  JobId job;
};
struct NodeRemove {
  RequestId request = 0;
  std::string name;
};  // on request: told to end, then lost
struct NodeDrain {
  RequestId request = 0;
  std::string name;
  bool on = true;
};  // takes no new actors

// Jobs and the sessions of their processes.
struct JobOpen {
  RequestId request = 0;
  JobInfo info;
};  // info.job set: the driver comes back to its job
struct JobEnd {
  RequestId request = 0;
  JobId job;
  std::string reason;
};
struct SessionOpen {
  RequestId request = 0;
  NodeId node;
  ProcessId process;
};
struct SessionClosed {
  ProcessId process;
};  // its waiting requests are of no interest any more

// Requests of a session.
struct Spawn {
  RequestId request = 0;
  ProcessId session;
  std::vector<SpecPtr> actors;
};
struct Resolve {
  RequestId request = 0;
  ProcessId session;
  ActorId actor;
  std::uint32_t after = 0;
};
struct Find {
  RequestId request = 0;
  std::string name;
};
struct Kill {
  RequestId request = 0;
  ActorId actor;
  bool no_restart = true;
};

// Reports of an agent.
struct ActorAlive {
  NodeId node;
  ActorId actor;
  std::uint32_t incarnation = 0;
  Endpoint endpoint;
};
struct ActorFailed {
  NodeId node;
  ActorId actor;
  std::uint32_t incarnation = 0;
  Cause failure;
  bool may_run = false;  // nobody knows whether it was started: what it holds is kept until it was destroyed
};
struct ProcessEnded {
  NodeId node;
  ProcessId process;
  Cause failure;
};
struct ActorDestroyed {
  NodeId node;
  ActorId actor;
  std::uint32_t incarnation = 0;
};  // Destroy was carried out
struct JobEndedOn {
  NodeId node;
  JobId job;
};  // EndJob was carried out
struct Acknowledge {
  RequestId request = 0;
};  // answered when all that came before is durable

struct Tick {};  // at wake_at()
struct Shutdown {
  RequestId request = 0;
};  // every job ends, every node leaves

using Event =
    std::variant<NodeJoin, NodeLost, NodeReturnFailed, JobReturnFailed, NodeRemove, NodeDrain, JobOpen,
                 JobEnd, SessionOpen, SessionClosed, Spawn, Resolve, Find, Kill, ActorAlive, ActorFailed,
                 ProcessEnded, ActorDestroyed, JobEndedOn, Acknowledge, Tick, Shutdown>;

}  // namespace troupe::gcs
