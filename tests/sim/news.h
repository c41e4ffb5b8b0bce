// Between the head or an agent and a process's control plane: what is told is shown to the judge, then handed
// on at the same moment.
//
// Owner: Cap'n Proto. Thread: the simulation's. A dead process hears nothing.
#pragma once

#include "core/protocol/cluster.capnp.h"
#include "tests/sim/program.h"

namespace troupe::sim {

// `owns`: failures that are told must reach the program's code.
wire::JobClient::Client overheard(Program& program, bool owns, wire::JobClient::Client to);
// An agent as a worker sees it, whose news are overheard.
wire::WorkerHost::Client overheard(Program& program, wire::WorkerHost::Client agent);

}  // namespace troupe::sim
