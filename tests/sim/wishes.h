// What simulated drivers and workers ask for: small actors, named ones, GPUs whole and in parts, and some
// that no node could hold.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/base/resources.h"
#include "core/protocol/cluster.capnp.h"
#include "tests/sim/random.h"

namespace troupe::sim {

struct Wish {
  std::string name;
  std::string node;  // affinity
  bool light = true, detached = false, get_or_create = false;
  double cpu = 0, gpu = 0;
  int restarts = 0;

  static Wish draw(Random& random);
  void write(wire::ActorSpec::Builder to, ActorId actor, ActorId owner) const;
};

}  // namespace troupe::sim
