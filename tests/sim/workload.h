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

  void set_up();          // heads, nodes, drivers
  void act();             // one thing at random
  Micros pause();         // until the next
  void calm();            // no faults from now on: all is healed, thawed and running
  void call_everybody();  // each driver each of its actors: calls that must be answered

 private:
  struct Choice {
    unsigned weight;
    const char* name;
    std::function<bool()> run;  // false: there was nothing to do it to
  };
  void list_requests();
  void list_calls();
  void list_faults();
  void list_repairs();
  Node* some_node(const std::function<bool(Node&)>& fits);
  Driver* some_driver();
  ActorId some_actor(Driver& driver);
  CallPlan draw_call(Driver& driver);
  void add_driver();

  Cluster& cluster_;
  World& world_;
  Random& random_;
  std::vector<Choice> deeds_;
  unsigned weights_ = 0;
  int drivers_ = 0;
  unsigned chances_of_crash_ = 0;
  Micros step_ = 0;
};

}  // namespace troupe::sim
