// A simulated machine, on which the product's node agent runs now and then, as tools/troupe/node runs it.
//
// Owner: Cluster. Thread: the simulation's. Killing the agent destroys it, at the top of a step; its workers
// then die as those of a real one do.
#pragma once

#include <memory>
#include <string>

#include "runtime/agent/node_agent.h"
#include "tests/sim/sim_process.h"
#include "tests/sim/workers.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class Cluster;

class Node {
 public:
  Node(Cluster& cluster, std::string name, Resources resources, std::string folder);
  ~Node() noexcept(false);

  void start();             // an agent, if none runs
  void kill(bool silent);   // as SIGKILL, or as the loss of the machine
  void stop();              // as SIGTERM
  // At a fault point, in the midst of its code: nothing leaves it any more; reap() destroys it.
  bool crash(const void* where);
  void reap();
  void freeze();
  void thaw();

  bool running() const { return agent_ != nullptr; }
  bool frozen() const { return agent_ && agent_->process.frozen(); }
  bool joined() const { return agent_ && agent_->joined; }
  const std::string& name() const { return name_; }
  std::uint64_t number() const { return agent_ ? agent_->number : 0; }  // of the agent's process
  NodeId id() const { return agent_ && agent_->joined ? NodeId{agent_->node->node()} : NodeId{}; }

 private:
  struct Agent {
    Agent(World& world, const std::string& host);
    std::uint64_t number;
    SimProcess process;
    kj::Own<NodeAgent> node;
    bool joined = false;
    kj::Own<kj::TaskSet> tasks;
    kj::Own<kj::TaskSet::ErrorHandler> on_failure;
  };
  void connect(std::uint64_t number, Micros deadline);
  void exits(std::uint64_t number, const std::string& why, bool nothing_left);

  Cluster& cluster_;
  std::string name_;
  Resources resources_;
  std::string folder_;
  std::unique_ptr<Agent> agent_;
  bool crashed_ = false;
};

}  // namespace troupe::sim
