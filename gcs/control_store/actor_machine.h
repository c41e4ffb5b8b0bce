// The life of an actor, as one table.
//
//              placed              alive
//   PENDING ───────────▶ STARTING ───────▶ ALIVE
//      │                  │  ▲  │            │
//      │           failed │  │  │ doomed     │ failed         failed: the incarnation ended, the actor may
//      restart │ doomed           ▼  │ placed        │                doomed: it may not: limit reached,
//      killed, owner gone │              RESTARTING ◀───────────┤ │                     │ doomed        │
//      doomed └──────▶ DEAD ◀───────┴───────────────┘
//
// A trigger without an entry is stale or repeated and changes nothing. A new incarnation begins with each
// `placed`.
#pragma once

#include <cstdint>
#include <optional>

#include "gcs/control_store/types.h"

namespace troupe::gcs {

enum class Trigger : std::uint8_t { placed, alive, failed, doomed };

// What a transition entails, besides the new phase.
enum Effect : std::uint8_t {
  kNothing = 0,
  kBegin = 1,     // a new incarnation
  kPersist = 2,   // the record is written
  kAnnounce = 4,  // the spawner and those who wait for the actor are told
  kRequeue = 8,   // waits for a node again, after its back-off and once the old incarnation is gone
  kBury = 16,     // its name is free, and the record may be dropped in time
};

struct Step {
  Phase to;
  std::uint8_t effects;
};

std::optional<Step> step(Phase from, Trigger trigger);

}  // namespace troupe::gcs
