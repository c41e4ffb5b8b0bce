// A Mesh over one connection for each pair of ranks: TCP, or a Unix socket where both are on one machine.
// Whoever waits moves the bytes itself: no thread of its own, and none to hand over to. Memory is written
// from and read into directly.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/auth/token.h"
#include "runtime/group/mesh.h"

namespace troupe {

// Connections are proven with the token; groups of one rank need none.
std::unique_ptr<Mesh> make_socket_mesh(int rank, int size, std::string host, std::optional<Token> token);

}  // namespace troupe
