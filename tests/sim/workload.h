// A random history of a cluster: what drivers ask for and what goes wrong, drawn from the world's seed.
//
// Owner: the simulation. Thread: one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace troupe::sim {

class Workload {
 public:
  explicit Workload(Cluster& cluster);

  void set_up();   // heads, nodes, drivers
  void act();      // one thing at random
  Micros pause();  // until the next
  void calm();     // no faults from now on: all is healed, thawed and running

 private:
  struct Deed {
    unsigned weight;
    const char* name;
    std::function<bool()> run;  // false: there was nothing to do it to
  };
  void list_requests();
  void list_faults();
  void list_repairs();
  Node* some_node(const std::function<bool(Node&)>& fits);
  Driver* some_driver();

  Cluster& cluster_;
  World& world_;
  Random& random_;
  std::vector<Deed> deeds_;
  unsigned weights_ = 0;
  int drivers_ = 0;
  Micros step_ = 0;
};

}  // namespace troupe::sim
