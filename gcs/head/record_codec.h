// Records of the control store as bytes: packed messages of core/protocol/store.capnp, counters as decimal
// text.
#pragma once

#include "gcs/control_store/control_store.h"
#include "gcs/store/store.h"

namespace troupe::gcs {

// The write that brings the store up to date with the core's record, or erases it there.
Write encode(const ControlStore& core, Table table, std::uint64_t id);

// All of them; journals in the store, which are not in the core, are marked as perhaps incomplete.
Batch encode_all(const ControlStore& core);
// The field of that mark. It goes with the next snapshot, which does not need what was before.
inline constexpr const char* kIncompleteJournal = "incomplete";

// Whether the actor's journal lies in the store.
bool journal_in_store(const ActorRecord& actor);

// Everything that can be read. What cannot is reported in `repairs`: writes that move it to the quarantine.
Snapshot decode(const Tables& tables, Batch& repairs);

}  // namespace troupe::gcs
