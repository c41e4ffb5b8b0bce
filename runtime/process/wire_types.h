// Between the schemas of the control plane and the plain types of the call plane. Control thread.
#pragma once

#include <memory>

#include "core/base/resources.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/call/directory.h"
#include "runtime/process/process.h"

namespace troupe {

void write_place(wire::Endpoint::Builder to, const Place& place);
Place read_place(wire::Endpoint::Reader from);
ActorNews read_news(wire::ActorState::Reader from);
Resources read_resources(capnp::List<wire::Amount>::Reader from);
void write_durability(wire::Durability::Builder to, const Durability& from);
Durability read_durability(wire::Durability::Reader from);
void write_spec(wire::ActorSpec::Builder to, const SpawnRequest& request);

}  // namespace troupe
