// Records of the control store as bytes: packed messages of core/protocol/store.capnp, counters as decimal
// text.
#pragma once

#include "gcs/control_store/control_store.h"
#include "gcs/store/store.h"

namespace troupe::gcs {

// The write that brings the store up to date with the core's record, or erases it there.
Write encode(const ControlStore& core, Table table, std::uint64_t id);

// Everything that can be read. What cannot is reported in `repairs`: writes that move it to the quarantine.
Snapshot decode(const Tables& tables, Batch& repairs);

}  // namespace troupe::gcs
