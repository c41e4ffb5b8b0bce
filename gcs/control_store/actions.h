// What the control store wants done. Actions towards one peer keep their order.
#pragma once

#include <variant>

#include "gcs/control_store/types.h"

namespace troupe::gcs {

// The record changed: write it, or erase it if the store does not hold it any more. Once a turn for each
// record.
struct Persist {
  Table table;
  std::uint64_t id;
};

// Commands to an agent. Each is an obligation: repeated until it is carried out or the node is lost.
struct StartJob {
  NodeId node;
  JobId job;
};
struct Place {
  NodeId node;
  SpecPtr spec;
  std::uint32_t incarnation;
  JobId job;
  ProcessId process;
  std::vector<std::uint16_t> gpus;
  bool served = false;
};
struct Destroy {
  NodeId node;
  ActorId actor;
  std::uint32_t incarnation;
};  // then ActorDestroyed
struct EndJob {
  NodeId node;
  JobId job;
};  // then JobEndedOn
// To all clients: what is heard of that node counts no more.
struct NodeGone {
  NodeId node;
};
struct ShutdownNode {
  NodeId node;
  std::string reason;
};

struct Notify {
  ProcessId session;
  ActorState state;
};

struct NodeJoined {
  NodeId node;
  std::string name;
  bool returned = false;  // it was known
};
struct JobOpened {
  JobId job;
  ProcessId process;
  bool returned = false;
};
struct SessionOpened {
  JobId job;
};
struct SpawnResult {
  ActorId actor;
  Cause failure;
};
struct Done {
  std::string what;
};
using Answer =
    std::variant<Done, Error, NodeJoined, JobOpened, SessionOpened, std::vector<SpawnResult>, ActorState>;
struct Reply {
  RequestId request;
  Answer answer;
};

struct Action {
  Turn after;  // not before that turn's batch is durable; 0: at once
  std::variant<Persist, StartJob, Place, Destroy, EndJob, NodeGone, ShutdownNode, Notify, Reply> what;
};
using Actions = std::vector<Action>;

}  // namespace troupe::gcs
