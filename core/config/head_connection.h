// Reaching the head, which may be one of several: an active one and its standbys. Thread: the control thread.
#pragma once

#include "core/config/find_cluster.h"
#include "core/control/rpc.h"

namespace troupe {

// Tries the cluster's addresses in their order. Rejected with the Error of the last; a refusal (another
// token) ends it at once.
kj::Promise<kj::Own<RpcConnection>> connect_to_head(ControlLoop& loop, ClusterLocation cluster);

// The same, after asking anew where the cluster is: a head that was started again may listen elsewhere.
kj::Promise<kj::Own<RpcConnection>> find_head(ControlLoop& loop, const std::optional<std::string>& head);

}  // namespace troupe
