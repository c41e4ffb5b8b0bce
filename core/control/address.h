// Where a server listens: "HOST:PORT", "[IPV6]:PORT" or "unix:/path". Port 0 asks the kernel for a free one.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/os/fd.h"

namespace troupe {

struct Address {
  std::string host;  // empty for Unix sockets
  std::uint16_t port = 0;
  std::string path;

  bool is_unix() const { return !path.empty(); }
  std::string text() const;
};

// Errors say what a right address looks like. `default_port` stands in when none is given; 0 demands one.
Result<Address> parse_address(const std::string& text, std::uint16_t default_port = 0);

// A listening, non-blocking, close-on-exec socket; `bound` receives the address with the port the kernel
// chose. A Unix socket gets mode 0600, and a stale file left by a dead process is replaced.
Result<UniqueFd> listen_on(const Address& address, Address& bound);

// Starts a non-blocking connect; the caller waits until the socket is writable and then asks connect_result.
Result<UniqueFd> start_connect(const Address& address);
// For both ends of a TCP connection: small messages leave at once, and a peer whose machine is gone without a
// word shows as the end of the connection within kSilentPeerMs.
inline constexpr int kSilentPeerMs = 15'000;
void tune_connection(int fd);
Result<void> connect_result(int fd, const Address& address);

}  // namespace troupe
