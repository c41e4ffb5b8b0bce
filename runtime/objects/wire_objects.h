// Objects' ids and transits on the wire (core/protocol/objects.capnp).
#pragma once

#include "core/protocol/objects.capnp.h"
#include "runtime/objects/object_id.h"
#include "runtime/objects/store_core.h"

namespace troupe {

inline void write_id(wire::ObjectId::Builder to, const ObjectId& id) {
  to.setCluster(id.cluster);
  to.setNode(id.node.value);
  to.setNumber(id.number);
}
inline ObjectId read_id(wire::ObjectId::Reader from) {
  return {from.getCluster(), {from.getNode()}, from.getNumber()};
}
inline void write_transit(wire::Transit::Builder to, const Transit& transit) {
  to.setNode(transit.node.value);
  to.setProcess(transit.process);
  to.setChannel(transit.channel);
  to.setNumber(transit.number);
}
inline Transit read_transit(wire::Transit::Reader from) {
  return {{from.getNode()}, from.getProcess(), from.getChannel(), from.getNumber()};
}

}  // namespace troupe
