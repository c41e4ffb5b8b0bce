// Cap'n Proto RPC over authenticated streams.
//
// Owner: the process. Thread: the control thread. Lifetime: objects are made after the ControlLoop and
// destroyed before it. A connection's end shows as on_disconnect() and as DISCONNECTED failures of its calls;
// servers see it as the destruction of the capabilities the peer held.
#pragma once

#include <capnp/rpc-twoparty.h>

#include <string>

#include "core/control/acceptor.h"
#include "core/control/address.h"

namespace troupe {

// Serves `bootstrap` to every peer that knows the token.
class RpcListener {
 public:
  RpcListener(ControlLoop& loop, UniqueFd listening, Token token, capnp::Capability::Client bootstrap);

 private:
  capnp::TwoPartyServer server_;
  Acceptor acceptor_;
};

// One connection to a server, or one side of an inherited socket pair.
class RpcConnection {
 public:
  // `bootstrap` is what this side offers to the other. Of the two sides of a socket pair one is the server.
  explicit RpcConnection(kj::Own<SocketStream> stream, capnp::Capability::Client bootstrap = nullptr,
                         bool server_side = false);
  // Over any stream.
  RpcConnection(kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap, bool server_side);
  capnp::Capability::Client bootstrap() { return client_.bootstrap(); }
  kj::Promise<void> on_disconnect() { return client_.onDisconnect(); }

 private:
  kj::Own<kj::AsyncIoStream> stream_;
  capnp::TwoPartyClient client_;
};

// Connects and proves; rejected with an Error (kj_error.h) of kind unavailable, unauthenticated or
// invalid_argument.
kj::Promise<kj::Own<SocketStream>> connect_authenticated(ControlLoop& loop, const Address& address,
                                                         const Token& token);
kj::Promise<kj::Own<RpcConnection>> rpc_connect(ControlLoop& loop, const Address& address, const Token& token,
                                                capnp::Capability::Client bootstrap = nullptr);

}  // namespace troupe
