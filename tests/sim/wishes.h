// What simulated drivers and workers ask for: small actors, named ones, GPUs whole and in parts, and some
// that no node could hold.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/base/resources.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/process/process.h"
#include "tests/sim/random.h"

namespace troupe::sim {

struct Wish {
  std::string name;
  std::string node;    // affinity
  bool crowd = false;  // of the class that runs several calls at a time
  bool light = true, detached = false, get_or_create = false;
  double cpu = 0, gpu = 0;
  int restarts = 0;

  static Wish draw(Random& random);
  void write(wire::ActorSpec::Builder to, ActorId actor, ActorId owner) const;
  SpawnRequest request(ActorId owner) const;  // the same, for the product's own process
};

// Numbers of actors that are asked for past the product's own process, which counts from 1.
constexpr ActorId raw_actor(ProcessId process, std::uint64_t n) { return actor_of(process, (1u << 20) + n); }

}  // namespace troupe::sim
