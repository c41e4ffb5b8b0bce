// A simulated cluster: heads over one disk, machines, drivers, and what can happen to them. Random workloads
// and scenario files act through this.
//
// Owner: the simulation. Thread: one. Hosts are "head", node names and driver names. All members are called
// at the top of a step.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fault_point.h"
#include "tests/sim/driver.h"
#include "tests/sim/head.h"
#include "tests/sim/node.h"
#include "tests/sim/workers.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class Cluster {
 public:
  Cluster(World& world, std::string folder);
  ~Cluster() noexcept(false);

  World& world() { return world_; }
  Workers& workers() { return workers_; }

  // A head that starts while another runs takes the store over from it.
  void start_head();
  void kill_head(bool silent);  // all of them
  Head* head();                 // the newest that serves, or null
  Head* reachable_head(const std::string& from);
  std::size_t heads() const { return heads_.size(); }
  void thaw_heads();
  void end_old_heads();

  Node& add_node(const std::string& name, const Resources& resources);
  Node* node(const std::string& name);
  std::map<std::string, std::unique_ptr<Node>>& nodes() { return nodes_; }

  // On a host of its own, or on a node's.
  Driver& add_driver(const std::string& name, const std::string& host = "", bool handles = true);
  Driver* driver(const std::string& name);
  void end_driver(const std::string& name, bool silent);
  std::map<std::string, std::unique_ptr<Driver>>& drivers() { return drivers_; }

  // Asks the head, as `troupe kill` does: "job:3", "node:n1", an actor's name.
  void admin_kill(const std::string& target);
  std::size_t admin_asking() const { return admin_asking_; }

  void crash(const FaultPoint& point, const void* where);  // a fault point in their code fired

  bool step(Micros limit);  // one step and its checks; false: nothing more until then

 private:
  void reap_heads();

  World& world_;
  std::string folder_;
  Workers workers_;
  std::vector<std::unique_ptr<Head>> heads_;  // oldest first
  std::map<std::string, std::unique_ptr<Node>> nodes_;
  std::map<std::string, std::unique_ptr<Driver>> drivers_;
  struct Admin;
  std::vector<std::unique_ptr<Admin>> admins_;
  std::size_t admin_asking_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace troupe::sim
