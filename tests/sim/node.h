// A simulated machine, on which the product's node agent runs now and then, as tools/troupe/node runs it.
//
// Owner: Cluster. Thread: the simulation's. Killing the agent destroys it, at the top of a step; its workers
// then die as those of a real one do.
#pragma once

#include <memory>
#include <string>
#include <vector>

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

  void start();            // an agent, if none runs
  void kill(bool silent);  // as SIGKILL, or as the loss of the machine
  void stop();             // as SIGTERM
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

  // What is left of killed agents after kRot: calls that they served end without anybody hearing of it.
  static constexpr Micros kRot = 8 * kSecond;
  void rot();

 private:
  struct Agent {
    Agent(World& world, const std::string& host);
    ~Agent() noexcept(false);
    std::uint64_t number;
    SimProcess process;
    kj::Own<NodeAgent> node;
    bool joined = false;
  };
  void connect(std::uint64_t number, Micros deadline);
  kj::Promise<kj::Own<RpcConnection>> connection(std::uint64_t number);
  void exits(std::uint64_t number, const std::string& why, bool nothing_left);

  Cluster& cluster_;
  std::string name_;
  Resources resources_;
  std::string folder_;
  std::unique_ptr<Agent> agent_;
  std::vector<std::pair<Micros, std::unique_ptr<Agent>>> dead_;  // since when
  bool crashed_ = false;
};

}  // namespace troupe::sim
