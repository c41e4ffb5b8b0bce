#include "core/control/address.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace troupe {
namespace {

constexpr int kListenQueue = 1024;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<SocketAddress> resolve(const Address& address) {
  SocketAddress out;
  if (address.is_unix()) {
    auto& un = reinterpret_cast<sockaddr_un&>(out.storage);
    un.sun_family = AF_UNIX;
    if (address.path.size() >= sizeof un.sun_path) {
      return Error(ErrorKind::invalid_argument, "the socket path " + address.path + " is longer than " +
                                                    std::to_string(sizeof un.sun_path - 1) +
                                                    " bytes: set TROUPE_HOME to a shorter folder");
    }
    std::memcpy(un.sun_path, address.path.data(), address.path.size());
    out.size = sizeof un;
    return out;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int code = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) {
    return Error(ErrorKind::invalid_argument,
                 "cannot resolve host '" + address.host + "': " + gai_strerror(code));
  }
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  freeaddrinfo(found);
  return out;
}

bool answers(const SocketAddress& target) {
  UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto copy = target;
  return ::connect(probe.get(), copy.get(), copy.size) == 0;
}

}  // namespace

std::string Address::text() const {
  if (is_unix()) return "unix:" + path;
  bool v6 = host.find(':') != host.npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(const std::string& text, std::uint16_t default_port) {
  Address out;
  if (text.rfind("unix:", 0) == 0) {
    out.path = text.substr(5);
    if (out.path.empty())
      return Error(ErrorKind::invalid_argument, "unix: needs a path, like unix:/run/troupe.sock");
    return out;
  }
  std::string port;
  if (!text.empty() && text[0] == '[') {
    auto close = text.find(']');
    if (close == text.npos) return Error(ErrorKind::invalid_argument, "address '" + text + "' lacks a ]");
    out.host = text.substr(1, close - 1);
    if (close + 1 < text.size() && text[close + 1] == ':') port = text.substr(close + 2);
  } else {
    auto colon = text.rfind(':');
    out.host = text.substr(0, colon);
    if (colon != text.npos) port = text.substr(colon + 1);
  }
  auto wrong = [&] {
    return Error(ErrorKind::invalid_argument,
                 "'" + text + "' is not an address: write HOST:PORT, like 127.0.0.1:7600, or unix:/path");
  };
  if (out.host.empty()) return wrong();
  if (port.empty()) {
    if (default_port == 0) return wrong();
    out.port = default_port;
    return out;
  }
  unsigned number = 0;
  auto [end, bad] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (bad != std::errc{} || end != port.data() + port.size() || number > 65535) return wrong();
  out.port = static_cast<std::uint16_t>(number);
  return out;
}

Result<UniqueFd> listen_on(const Address& address, Address& bound) {
  auto target = resolve(address);
  if (!target) return target.error();
  UniqueFd fd(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(errno, "cannot create a socket");
  bound = address;
  if (address.is_unix()) {
    if (!answers(*target)) ::unlink(address.path.c_str());
  } else {
    int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (::bind(fd.get(), target->get(), target->size) != 0) {
    int number = errno;
    Error error = system_error(number, "cannot listen on " + address.text());
    if (number == EADDRINUSE) {
      error.message += "; choose another port, or port 0 to let the kernel choose";
    }
    return error;
  }
  if (address.is_unix()) ::chmod(address.path.c_str(), 0600);
  if (::listen(fd.get(), kListenQueue) != 0) {
    return system_error(errno, "cannot listen on " + address.text());
  }
  if (!address.is_unix()) {
    SocketAddress name;
    name.size = sizeof name.storage;
    ::getsockname(fd.get(), name.get(), &name.size);
    bound.port =
        ntohs(name.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name.storage).sin6_port
                                                 : reinterpret_cast<sockaddr_in&>(name.storage).sin_port);
  }
  return fd;
}

Result<UniqueFd> start_connect(const Address& address) {
  auto target = resolve(address);
  if (!target) return target.error();
  UniqueFd fd(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(errno, "cannot create a socket");
  if (!address.is_unix()) tune_connection(fd.get());
  if (::connect(fd.get(), target->get(), target->size) != 0 && errno != EINPROGRESS) {
    Error error = system_error(errno, "cannot connect to " + address.text());
    error.kind = ErrorKind::unavailable;
    return error;
  }
  return fd;
}

void tune_connection(int fd) {
  auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // Idle: asked after 5 s, then every 2 s, five times. With data under way: given up on as late.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentPeerMs);
}

Result<void> connect_result(int fd, const Address& address) {
  int number = 0;
  socklen_t size = sizeof number;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
  if (number == 0) return {};
  Error error = system_error(number, "cannot connect to " + address.text());
  error.kind = ErrorKind::unavailable;
  return error;
}

}  // namespace troupe
