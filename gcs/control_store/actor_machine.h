// The life of an actor, as one table.
//
// clang-format off
//             placed             alive
//   PENDING ─────────▶ STARTING ─────────▶ ALIVE
//                        │   ▲               │
//                 failed │   │ placed        │ failed
//                        ▼   │               │
//                      RESTARTING ◀──────────┘
// clang-format on
//
// `doomed` leads from each of them to DEAD, for good. failed: the incarnation ended, the actor may restart;
// doomed: it may not: its limit is reached, it was killed, its owner is gone.
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
