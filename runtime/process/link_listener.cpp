#include "runtime/process/link_listener.h"

#include <unistd.h>

#include "core/control/address.h"

namespace troupe {

Result<Place> LinkListener::listen(const WorkerStart& start) {
  Place place;
  place.process = {start.process};
  place.node = {start.node};
  place.host_id = start.host_id;
  place.pid = ::getpid();
  auto on_peer = [this](kj::Own<SocketStream> stream) {
    loop_.spawn("a new link", serve_link(
                                  loop_, kj::mv(stream), self_,
                                  [this](std::uint16_t lane) {
                                    return lane < lanes_.size() ? lanes_[lane]->doorbell() : -1;
                                  },
                                  on_link_));
  };
  Address address, bound;
  address.path = start.socket_dir + "/w" + std::to_string(start.process);
  auto socket = listen_on(address, bound);
  if (!socket) {
    return Error(socket.error().kind, "this worker cannot take links: " + socket.error().message);
  }
  place.unix_path = bound.path;
  unix_ = std::make_unique<Acceptor>(loop_, std::move(*socket), token_, on_peer);
  if (start.tcp_host.empty()) return place;
  Address tcp;
  tcp.host = start.tcp_host;
  auto listening = listen_on(tcp, bound);
  if (!listening) {
    return Error(listening.error().kind,
                 "this worker cannot take links from other hosts: " + listening.error().message);
  }
  place.tcp_host = bound.host;
  place.tcp_port = bound.port;
  tcp_ = std::make_unique<Acceptor>(loop_, std::move(*listening), token_, on_peer);
  return place;
}

}  // namespace troupe
