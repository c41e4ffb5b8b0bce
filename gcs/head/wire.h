// Between wire types and the control store's plain ones.
#pragma once

#include "core/protocol/cluster.capnp.h"
#include "core/protocol/common.capnp.h"
#include "gcs/control_store/types.h"

namespace troupe::gcs {

Resources read(capnp::List<wire::Amount>::Reader from);
NodeInfo read(wire::NodeInfo::Reader from);
JobInfo read(wire::JobInfo::Reader from);
SpecPtr read(wire::ActorSpec::Reader from);
Endpoint read(wire::Endpoint::Reader from);

// `init` is the builder's init function for the list, bound to its struct.
template <class Init>
void write_amounts(Init&& init, const Resources& from) {
  auto list = init(static_cast<unsigned>(from.all().size()));
  unsigned i = 0;
  for (const auto& [name, units] : from.all()) {
    list[i].setName(name.c_str());
    list[i++].setUnits(units);
  }
}
void write(wire::NodeInfo::Builder to, const NodeInfo& from);
void write(wire::JobInfo::Builder to, const JobInfo& from);
void write(wire::ActorSpec::Builder to, const ActorSpec& from);
void write(wire::Endpoint::Builder to, const Endpoint& from);
void write(wire::ActorState::Builder to, const ActorState& from);

inline wire::ActorPhase wire_phase(Phase phase) { return static_cast<wire::ActorPhase>(phase); }
inline wire::Isolation wire_isolation(Isolation isolation) {
  return isolation == Isolation::light ? wire::Isolation::LIGHT : wire::Isolation::PROCESS;
}

inline std::string text(capnp::Text::Reader from) { return std::string(from.cStr(), from.size()); }
inline capnp::Text::Reader text(const std::string& from) {
  return capnp::Text::Reader(from.c_str(), from.size());
}

}  // namespace troupe::gcs
