#include "core/control/rpc.h"

#include "core/control/kj_error.h"

namespace troupe {

RpcListener::RpcListener(ControlLoop& loop, UniqueFd listening, Token token,
                         capnp::Capability::Client bootstrap)
    : server_(kj::mv(bootstrap)),
      acceptor_(loop, std::move(listening), std::move(token), [this](kj::Own<SocketStream> stream) {
        stream->read_ahead();
        server_.accept(kj::mv(stream));
      }) {}

namespace {

kj::Own<kj::AsyncIoStream> reading_ahead(kj::Own<SocketStream> stream) {
  stream->read_ahead();
  return stream;
}

}  // namespace

RpcConnection::RpcConnection(kj::Own<SocketStream> stream, capnp::Capability::Client bootstrap,
                             bool server_side)
    : RpcConnection(reading_ahead(kj::mv(stream)), kj::mv(bootstrap), server_side) {}

RpcConnection::RpcConnection(kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
                             bool server_side)
    : stream_(kj::mv(stream)),
      client_(*stream_, kj::mv(bootstrap),
              server_side ? capnp::rpc::twoparty::Side::SERVER : capnp::rpc::twoparty::Side::CLIENT) {}

kj::Promise<kj::Own<SocketStream>> connect_authenticated(ControlLoop& loop, const Address& address,
                                                         const Token& token) {
  auto started = start_connect(address);
  if (!started) return kj_exception(started.error());
  auto stream = kj::heap<SocketStream>(loop, std::move(*started));
  int fd = stream->descriptor();
  auto connected = stream->when_connected();
  auto proved = connected.then([fd, address, token, &stream = *stream]() -> kj::Promise<void> {
    auto result = connect_result(fd, address);
    if (!result) return kj_exception(result.error());
    return prove_to_server(stream, token);
  });
  auto late =
      loop.timer()
          .afterDelay((kConnectMs + kProofMs) * kj::MILLISECONDS)
          .then([address]() -> kj::Promise<void> {
            return kj_exception(Error(ErrorKind::unavailable, address.text() + " did not answer in time"));
          });
  return proved.exclusiveJoin(kj::mv(late)).then([stream = kj::mv(stream)]() mutable {
    return kj::mv(stream);
  });
}

kj::Promise<kj::Own<RpcConnection>> rpc_connect(ControlLoop& loop, const Address& address, const Token& token,
                                                capnp::Capability::Client bootstrap) {
  return connect_authenticated(loop, address, token)
      .then([bootstrap = kj::mv(bootstrap)](kj::Own<SocketStream> stream) mutable {
        return kj::heap<RpcConnection>(kj::mv(stream), kj::mv(bootstrap));
      });
}

}  // namespace troupe
