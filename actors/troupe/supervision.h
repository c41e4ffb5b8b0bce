// What happens when an actor fails: it is dead for good, and nobody told it to end. Its owner is the code
// that spawned it: an actor, or the program. The failure goes
//   1. to the handler given with ActorOptions().on_failure(…), else to the one the owner has set with
//   on_failure;
//   2. without a handler, to whoever calls the actor: an owner's process that gets ActorDied has heard of it;
//   3. when within 2 s neither has dealt with it, or the handler throws, to the owner, which fails as well:
//   an actor
//      is restarted by its own policy, and its failure goes on to its owner; a program ends with status 1 and
//      the chain of what happened.
// Detached actors belong to the cluster and have no owner.
#pragma once

#include <functional>

#include "runtime/process/actor_failure.h"

namespace troupe {

// The handler for all actors that this owner spawns without one of their own: called inside an actor it is
// that actor's, elsewhere the program's. It runs as the owner's code, between its calls. An empty one takes
// it back.
void on_failure(FailureHandler handler);

}  // namespace troupe
