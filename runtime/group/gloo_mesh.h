// A mesh of TCP connections made by Gloo's transport.
//
// Its ports ask for no token: for comparison with SocketMesh only (docs/design/groups.md).
#pragma once

#include "runtime/group/mesh.h"

namespace troupe {

// `host`: the address of this machine that the other ranks can reach. Listens on one port for each other rank
// until it is connected.
std::unique_ptr<Mesh> make_gloo_mesh(int rank, int size, std::string host);

}  // namespace troupe
