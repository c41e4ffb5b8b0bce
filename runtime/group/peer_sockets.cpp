#include "runtime/group/peer_sockets.h"

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/auth/proof.h"
#include "core/auth/random.h"
#include "core/base/clock.h"
#include "core/codec/archive.h"
#include "core/control/address.h"

namespace troupe {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kProofTime = 5'000 * kMs;  // of a stranger
constexpr std::int64_t kPause = 20 * kMs;         // before a connection that ended is tried again
constexpr int kMostSilent = 64;                   // connections beyond those that are expected
constexpr std::size_t kKeyBytes = 16, kHelloBytes = kKeyBytes + 4;
constexpr int kUnixBuffer = 4 << 20;  // bytes under way; the kernel may grant less

// The key names the socket: who knows it may try, where it is not known the machine or the network is
// another.
socklen_t unix_name(const std::string& key, sockaddr_un& name) {
  static const char prefix[] = "\0troupe-group-";
  name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, prefix, sizeof prefix - 1);
  std::memcpy(name.sun_path + sizeof prefix - 1, key.data(), key.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + sizeof prefix - 1 + key.size());
}

UniqueFd unix_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return socket;
}

void tune_unix(int fd) {
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kUnixBuffer, sizeof kUnixBuffer) != 0)
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kUnixBuffer, sizeof kUnixBuffer);
}

}  // namespace

// A connection on its way. Reads no byte that belongs to what follows.
struct PeerSockets::Peer {
  UniqueFd socket;
  int rank = -1;  // whom it was dialled to; of those accepted: who they say they are
  bool connecting = false;
  Address address;
  std::string key, hello;
  std::optional<ClientProof> client;
  std::optional<ServerProof> server;
  bool proven = false;
  std::string out;       // not sent yet
  std::size_t need = 0;  // bytes until the next step
  std::int64_t until = INT64_MAX, again = 0;
  std::string problem;

  bool dialled() const { return !server; }
};

PeerSockets::PeerSockets(int rank, int size, std::string host, std::optional<Token> token)
    : rank_(rank), size_(size), host_(std::move(host)), token_(std::move(token)) {}
PeerSockets::~PeerSockets() = default;

Result<std::string> PeerSockets::listen() {
  if (!token_)
    return Error(ErrorKind::invalid_argument,
                 "a group of several ranks needs the cluster's token to connect");
  std::array<std::uint8_t, kKeyBytes> key;
  auto filled = random_bytes(key);
  if (!filled) return filled.error();
  key_.assign(key.begin(), key.end());
  Address address, bound;
  address.host = host_;
  auto listening = listen_on(address, bound);
  if (!listening)
    return Error(ErrorKind::unavailable,
                 "rank " + std::to_string(rank_) + " cannot listen on " + host_ +
                     " for its group: " + listening.error().message +
                     "; give an address of this machine, and see whether descriptors are left (ulimit -n)");
  tcp_ = std::move(*listening);
  sockaddr_un name;
  socklen_t size = unix_name(key_, name);
  unix_ = unix_socket();
  // Without it ranks of this machine use the port as well.
  if (::bind(unix_.get(), reinterpret_cast<sockaddr*>(&name), size) != 0 || ::listen(unix_.get(), size_) != 0)
    unix_.reset();
  Writer to;
  encode(to, std::pair(key_, bound.text()));
  return std::string(reinterpret_cast<const char*>(to.bytes().data()), to.size());
}

// Empty, or why it cannot be.
std::string PeerSockets::dial(Peer& peer) {
  auto proof = ClientProof::create(*token_);
  if (!proof) return proof.error().message;
  sockaddr_un name;
  socklen_t size = unix_name(peer.key, name);
  UniqueFd near = unix_socket();
  if (::connect(near.get(), reinterpret_cast<sockaddr*>(&name), size) == 0) {
    tune_unix(near.get());
    peer.socket = std::move(near);
    peer.connecting = false;
  } else {
    auto socket = start_connect(peer.address);
    if (!socket) return socket.error().message;
    peer.socket = std::move(*socket);
    peer.connecting = true;
  }
  peer.client = std::move(*proof);
  peer.proven = false;
  peer.need = kProofGreetingBytes;
  peer.out.clear();
  return "";
}

void PeerSockets::accept_all(int listening) {
  for (int i = 0; i < kMostSilent; ++i) {
    UniqueFd socket(::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    auto proof = ServerProof::create(*token_);
    if (!proof) return;
    listening == tcp_.get() ? tune_connection(socket.get()) : tune_unix(socket.get());
    int guests = 0;
    auto oldest = peers_.end();
    for (auto it = peers_.begin(); it != peers_.end(); ++it) {
      if (it->dialled()) continue;
      if (guests++ == 0) oldest = it;
    }
    if (guests >= size_ + kMostSilent) peers_.erase(oldest);
    Peer& peer = peers_.emplace_back();
    peer.socket = std::move(socket);
    peer.server = std::move(*proof);
    peer.out = peer.server->greeting();
    peer.need = kProofAnswerBytes;
    peer.until = steady_ns() + kProofTime;
  }
}

PeerSockets::Step PeerSockets::advance(Peer& peer) {
  if (peer.connecting) {
    pollfd ready{peer.socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return Step::wait;
    auto connected = connect_result(peer.socket.get(), peer.address);
    if (!connected) {
      peer.problem = connected.error().message;
      return Step::ended;
    }
    peer.connecting = false;
  }
  for (;;) {
    while (!peer.out.empty()) {
      ssize_t n = ::send(peer.socket.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN ? Step::wait : Step::ended;
      peer.out.erase(0, static_cast<std::size_t>(n));
    }
    if (peer.need == 0) return Step::done;
    Step step = read(peer);
    if (step != Step::done) return step;
  }
}

// Done: there is something to send, or nothing left to do.
PeerSockets::Step PeerSockets::read(Peer& peer) {
  char bytes[std::max({kProofGreetingBytes, kProofAnswerBytes, kProofVerdictBytes, kHelloBytes})];
  ssize_t n = ::recv(peer.socket.get(), bytes, std::min(peer.need, sizeof bytes), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Step::wait;
  if (n <= 0) return Step::ended;
  peer.need -= static_cast<std::size_t>(n);
  if (peer.proven) {
    peer.hello.append(bytes, static_cast<std::size_t>(n));
    if (peer.need != 0) return Step::wait;
    return admit(peer) ? Step::done : Step::ended;
  }
  auto fed = std::as_bytes(std::span(bytes, static_cast<std::size_t>(n)));
  ProofStep step = peer.client ? peer.client->feed(fed) : peer.server->feed(fed);
  peer.out += step.send;
  if (step.error) {
    peer.problem = step.error->message;
    // Who is refused is told.
    if (!peer.dialled())
      static_cast<void>(::send(peer.socket.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL));
    return Step::ended;
  }
  if (peer.need == 0) {
    if (!step.done) {
      peer.need = kProofVerdictBytes;
    } else if (peer.dialled()) {
      std::uint32_t rank = static_cast<std::uint32_t>(rank_);
      peer.proven = true;
      peer.out = peer.key + std::string(reinterpret_cast<const char*>(&rank), sizeof rank);
    } else {
      peer.proven = true;
      peer.need = kHelloBytes;
    }
  }
  return Step::done;
}

// Whether it is one of those who should come.
bool PeerSockets::admit(Peer& peer) {
  std::uint32_t rank = 0;
  std::memcpy(&rank, peer.hello.data() + kKeyBytes, sizeof rank);
  if (peer.hello.compare(0, kKeyBytes, key_) != 0 || rank >= static_cast<std::uint32_t>(size_) ||
      rank <= static_cast<std::uint32_t>(rank_) || sockets_[rank])
    return false;
  peer.rank = static_cast<int>(rank);
  return true;
}

PeerSockets::Connected PeerSockets::connect(const std::vector<std::string>& addresses, int wake,
                                            const std::function<std::int64_t()>& deadline,
                                            const std::function<bool()>& stop) {
  Connected result;
  sockets_.clear();
  sockets_.resize(static_cast<std::size_t>(size_));
  int left = size_ - 1;
  for (int to = 0; to < rank_ && result.problem.empty(); ++to) {
    Peer& peer = peers_.emplace_back();
    peer.rank = to;
    try {
      std::pair<std::string, std::string> theirs;
      const std::string& blob = addresses[static_cast<std::size_t>(to)];
      Reader from(std::as_bytes(std::span(blob.data(), blob.size())));
      decode(from, theirs);
      auto address = parse_address(theirs.second);
      if (theirs.first.size() != kKeyBytes || !address) throw DecodeError("it is no address of a rank");
      peer.key = theirs.first;
      peer.address = *address;
      result.problem = dial(peer);
    } catch (const std::exception& error) {
      result.problem = error.what();
    }
    if (!result.problem.empty()) result.missing = {to};
  }
  std::vector<pollfd> ready;
  while (left > 0 && result.problem.empty() && !stop()) {
    std::int64_t now = steady_ns(), until = deadline();
    if (now >= until) break;
    ready.assign({{wake, POLLIN, 0}, {tcp_.get(), POLLIN, 0}, {unix_.get(), POLLIN, 0}});
    for (Peer& peer : peers_) {
      until = std::min(until, peer.socket ? peer.until : peer.again);
      bool writes = peer.connecting || !peer.out.empty();
      if (peer.socket) ready.push_back({peer.socket.get(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    }
    auto pause = std::clamp<std::int64_t>((until - now) / kMs + 1, 0, 60'000);
    if (::poll(ready.data(), ready.size(), static_cast<int>(pause)) < 0 && errno != EINTR) {
      result.problem = system_error(errno, "poll failed").message;
      break;
    }
    if ((ready[1].revents & POLLIN) != 0) accept_all(tcp_.get());
    if ((ready[2].revents & POLLIN) != 0) accept_all(unix_.get());
    now = steady_ns();
    for (auto it = peers_.begin(); it != peers_.end();) {
      Peer& peer = *it;
      if (!peer.socket && now >= peer.again) {
        if (std::string problem = dial(peer); !problem.empty()) {
          result.problem = problem;
          result.missing = {peer.rank};
          break;
        }
      }
      Step step = peer.socket ? advance(peer) : Step::wait;
      bool guest = !peer.dialled();
      if (step == Step::done) {
        sockets_[static_cast<std::size_t>(peer.rank)] = std::move(peer.socket);
        --left;
        it = peers_.erase(it);
      } else if (guest && (step == Step::ended || now >= peer.until)) {
        it = peers_.erase(it);  // its own affair
      } else if (step == Step::ended && !peer.problem.empty()) {
        result.problem = peer.problem;
        result.missing = {peer.rank};
        break;
      } else {
        // It may have dropped this connection to make room for others: who is dead refuses the next.
        if (step == Step::ended) {
          peer.socket.reset();
          peer.again = now + kPause;
        }
        ++it;
      }
    }
  }
  tcp_.reset();
  unix_.reset();
  peers_.clear();
  if (left > 0 && result.missing.empty()) {
    for (int i = 0; i < size_; ++i)
      if (i != rank_ && !sockets_[static_cast<std::size_t>(i)]) result.missing.push_back(i);
  }
  result.sockets = std::move(sockets_);
  return result;
}

}  // namespace troupe
