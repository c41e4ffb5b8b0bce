#include "runtime/group/socket_mesh.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/clock.h"
#include "core/link/polling.h"
#include "core/os/fd.h"
#include "runtime/group/mesh_state.h"
#include "runtime/group/peer_sockets.h"

namespace troupe {
namespace {

constexpr std::size_t kAhead = 8 << 10;   // bytes read ahead: headers, and small messages with them
constexpr std::size_t kAtOnce = 1 << 20;  // of one call: directions and peers take turns
constexpr int kEvents = 64;

class SocketBuffer;

struct Header {
  std::uint64_t tag, bytes;
};

struct Outgoing {
  SocketBuffer* buffer;
  Header header;
  const std::byte* from;
  std::size_t sent = 0;  // with the header
};

struct Incoming {
  SocketBuffer* buffer;
  std::uint64_t tag;
  std::byte* to;
  std::size_t room;
};

struct Peer {
  int rank = -1;
  UniqueFd socket;
  std::vector<Outgoing> out;  // in their order
  std::vector<Incoming> in;
  bool active = false;  // is in active_
  // What epoll told last; until the socket says otherwise.
  bool readable = true, writable = true;
  std::unique_ptr<std::byte[]> ahead;
  std::size_t begin = 0, end = 0;  // of what was read ahead
  bool in_message = false;         // its header was read; in[0] is its place
  Header header{};
  std::size_t got = 0;  // of its bytes
};

class SocketMesh final : public Mesh {
 public:
  SocketMesh(int rank, int size, std::string host, std::optional<Token> token)
      : rank_(rank),
        size_(size),
        meeting_(rank, size, std::move(host), std::move(token)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~SocketMesh() override { close(); }

  Result<std::string> address() override { return size_ == 1 ? Result<std::string>("") : meeting_.listen(); }
  bool connect(const std::vector<std::string>& addresses) override;
  std::unique_ptr<Buffer> buffer(void* memory, std::size_t bytes) override;
  void set_deadline(std::int64_t deadline_ns) override {
    if (state_.set_deadline(deadline_ns)) wake();
  }
  std::int64_t deadline() const override { return state_.deadline(); }
  void abort(const Error& why) override { fail({why, {}, false}); }
  bool failed() const override { return state_.failed(); }
  std::optional<MeshFailure> failure() const override { return state_.failure(); }
  void close() override;

 private:
  friend class SocketBuffer;

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void send(int to, Outgoing message);
  void recv(int from, Incoming message);
  void forget(SocketBuffer& buffer);
  // Until `count` is not zero, and takes one off.
  bool wait(int& count, const SocketBuffer& buffer);
  bool move_all();  // whether anything moved
  bool write(Peer& peer);
  bool read(Peer& peer);
  bool read_ahead(Peer& peer);
  bool read_payload(Peer& peer);
  bool begin_message(Peer& peer);
  void end_message(Peer& peer);
  void sleep();
  bool take_events(int timeout_ms);

  void wake() {
    std::uint64_t one = 1;
    static_cast<void>(!::write(wake_.get(), &one, sizeof one));
  }
  void fail(MeshFailure failure) {
    if (state_.fail(std::move(failure))) wake();
  }
  void fail_lost(const std::string& what, int peer);

  const int rank_, size_;
  PeerSockets meeting_;
  const UniqueFd wake_, epoll_;
  std::vector<Peer> peers_;
  std::vector<int> active_;  // ranks with messages under way
  PollingPolicy polling_;
  MeshState state_;
};

class SocketBuffer final : public Mesh::Buffer {
 public:
  SocketBuffer(SocketMesh& mesh, void* memory) : mesh_(mesh), memory_(static_cast<std::byte*>(memory)) {}
  ~SocketBuffer() override {
    if (sending_ + receiving_ != 0) mesh_.forget(*this);
  }

  void send(int peer, std::uint64_t tag, std::size_t offset, std::size_t bytes) override {
    ++sending_;
    mesh_.send(peer, {this, {tag, bytes}, memory_ + offset});
  }
  void recv(int peer, std::uint64_t tag, std::size_t offset, std::size_t bytes) override {
    ++receiving_;
    mesh_.recv(peer, {this, tag, memory_ + offset, bytes});
  }
  bool wait_send() override { return mesh_.wait(sent_, *this); }
  bool wait_recv() override { return mesh_.wait(received_, *this); }

 private:
  friend class SocketMesh;

  SocketMesh& mesh_;
  std::byte* const memory_;
  int sending_ = 0, receiving_ = 0;  // under way
  int sent_ = 0, received_ = 0;      // ended, and not waited for
};

// ---- connecting ----

bool SocketMesh::connect(const std::vector<std::string>& addresses) {
  if (size_ == 1) return !failed();
  auto made = meeting_.connect(
      addresses, wake_.get(), [this] { return deadline(); }, [this] { return failed(); });
  if (failed()) return false;
  if (!made.problem.empty()) {
    fail({Error(ErrorKind::unavailable,
                "rank " + std::to_string(rank_) + " cannot connect to " + list_ranks(made.missing) +
                    ": it ended, or left after an error of its own (" + made.problem + ")"),
          made.missing, true});
  } else if (!made.missing.empty()) {
    fail({Error(ErrorKind::deadline_exceeded, list_ranks(made.missing) + " did not connect in time"),
          made.missing, false});
  }
  if (failed()) return false;
  peers_.resize(static_cast<std::size_t>(size_));
  epoll_event event{EPOLLIN, {}};
  event.data.u32 = static_cast<std::uint32_t>(rank_);
  bool good = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0;
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) continue;
    Peer& to = peer(i);
    to.rank = i;
    to.socket = std::move(made.sockets[static_cast<std::size_t>(i)]);
    to.ahead = std::make_unique_for_overwrite<std::byte[]>(kAhead);
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u32 = static_cast<std::uint32_t>(i);
    good &= ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, to.socket.get(), &event) == 0;
  }
  if (!good) fail({system_error(errno, "epoll_ctl failed"), {}, false});
  return !failed();
}

// ---- messages ----

std::unique_ptr<Mesh::Buffer> SocketMesh::buffer(void* memory, std::size_t) {
  return std::make_unique<SocketBuffer>(*this, memory);
}

void SocketMesh::send(int to, Outgoing message) {
  if (failed()) return;
  Peer& p = peer(to);
  p.out.push_back(message);
  if (!std::exchange(p.active, true)) active_.push_back(to);
  if (p.out.size() == 1) write(p);
}

void SocketMesh::recv(int from, Incoming message) {
  if (failed()) return;
  Peer& p = peer(from);
  p.in.push_back(message);
  if (!std::exchange(p.active, true)) active_.push_back(from);
}

void SocketMesh::forget(SocketBuffer& buffer) {
  for (Peer& p : peers_) {
    std::erase_if(p.out, [&](const Outgoing& one) { return one.buffer == &buffer; });
    std::erase_if(p.in, [&](const Incoming& one) { return one.buffer == &buffer; });
  }
}

bool SocketMesh::wait(int& count, const SocketBuffer& buffer) {
  for (;;) {
    if (failed()) return false;
    if (count > 0) {
      --count;
      return true;
    }
    if (steady_ns() >= deadline()) {
      std::vector<int> waited_for;
      for (int i : active_) {
        auto ours = [&](const auto& one) { return one.buffer == &buffer; };
        Peer& p = peer(i);
        if (std::any_of(p.out.begin(), p.out.end(), ours) || std::any_of(p.in.begin(), p.in.end(), ours))
          waited_for.push_back(i);
      }
      fail(too_late(rank_, std::move(waited_for)));
      return false;
    }
    if (!move_all() && count == 0 && !failed()) sleep();
  }
}

bool SocketMesh::move_all() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size() && !failed();) {
    Peer& p = peer(active_[i]);
    if (!p.out.empty()) moved |= write(p);
    if (!p.in.empty()) moved |= read(p);
    if (p.out.empty() && p.in.empty()) {
      p.active = false;
      active_[i] = active_.back();
      active_.pop_back();
    } else {
      ++i;
    }
  }
  return moved;
}

bool SocketMesh::write(Peer& p) {
  std::size_t total = 0;
  while (p.writable && !p.out.empty() && total < kAtOnce) {
    Outgoing& message = p.out.front();
    std::size_t body = message.sent < sizeof(Header) ? 0 : message.sent - sizeof(Header);
    iovec parts[2] = {
        {reinterpret_cast<char*>(&message.header) + message.sent, sizeof(Header) - message.sent},
        {const_cast<std::byte*>(message.from) + body,
         std::min<std::size_t>(message.header.bytes - body, kAtOnce)}};
    bool headed = message.sent >= sizeof(Header);
    msghdr call{};
    call.msg_iov = headed ? parts + 1 : parts;
    call.msg_iovlen = headed ? 1 : 2;
    ssize_t n = ::sendmsg(p.socket.get(), &call, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN)
        p.writable = false;
      else
        fail_lost(std::strerror(errno), p.rank);
      break;
    }
    message.sent += static_cast<std::size_t>(n);
    total += static_cast<std::size_t>(n);
    if (message.sent == sizeof(Header) + message.header.bytes) {
      --message.buffer->sending_;
      ++message.buffer->sent_;
      p.out.erase(p.out.begin());
    }
  }
  return total != 0;
}

bool SocketMesh::read(Peer& p) {
  bool moved = false;
  while (!p.in.empty()) {
    if (!p.in_message) {
      if (p.end - p.begin < sizeof(Header)) {
        if (!read_ahead(p)) return moved;
        moved = true;
        continue;
      }
      if (!begin_message(p)) return moved;
    }
    std::size_t held = std::min<std::size_t>(p.end - p.begin, p.header.bytes - p.got);
    if (held != 0) {
      std::memcpy(p.in.front().to + p.got, p.ahead.get() + p.begin, held);
      p.begin += held;
      p.got += held;
    }
    if (p.got < p.header.bytes) {
      if (!read_payload(p)) return moved;
      moved = true;
    }
    if (p.got == p.header.bytes) {
      end_message(p);
      return true;
    }
  }
  return moved;
}

// More of what may be small messages.
bool SocketMesh::read_ahead(Peer& p) {
  if (!p.readable) return false;
  std::memmove(p.ahead.get(), p.ahead.get() + p.begin, p.end - p.begin);
  p.end -= std::exchange(p.begin, 0);
  for (;;) {
    ssize_t n = ::recv(p.socket.get(), p.ahead.get() + p.end, kAhead - p.end, MSG_DONTWAIT);
    if (n > 0) return p.end += static_cast<std::size_t>(n), true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN)
      p.readable = false;
    else
      fail_lost(n == 0 ? "the connection was closed" : std::strerror(errno), p.rank);
    return false;
  }
}

bool SocketMesh::read_payload(Peer& p) {
  if (!p.readable) return false;
  for (;;) {
    ssize_t n = ::recv(p.socket.get(), p.in.front().to + p.got,
                       std::min<std::size_t>(p.header.bytes - p.got, kAtOnce), MSG_DONTWAIT);
    if (n > 0) return p.got += static_cast<std::size_t>(n), true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN)
      p.readable = false;
    else
      fail_lost(n == 0 ? "the connection was closed" : std::strerror(errno), p.rank);
    return false;
  }
}

// Messages of one connection arrive in the order in which both sides name them; what nobody waits for yet
// stays where it is, and holds its sender back.
bool SocketMesh::begin_message(Peer& p) {
  std::memcpy(&p.header, p.ahead.get() + p.begin, sizeof(Header));
  auto place = std::find_if(p.in.begin(), p.in.end(), [&](auto& one) { return one.tag == p.header.tag; });
  if (place == p.in.end()) return false;
  if (p.header.bytes > place->room) {
    fail({Error(ErrorKind::internal, "rank " + std::to_string(rank_) + " got a message of " +
                                         std::to_string(p.header.bytes) + " bytes from rank " +
                                         std::to_string(p.rank) + ", where " + std::to_string(place->room) +
                                         " were agreed on"),
          {p.rank},
          false});
    return false;
  }
  std::rotate(p.in.begin(), place, place + 1);
  p.begin += sizeof(Header);
  p.in_message = true;
  p.got = 0;
  return true;
}

void SocketMesh::end_message(Peer& p) {
  SocketBuffer& buffer = *p.in.front().buffer;
  --buffer.receiving_;
  ++buffer.received_;
  p.in.erase(p.in.begin());
  p.in_message = false;
}

// ---- waiting ----

// Until a socket can do what it could not, the deadline is near, or wake().
void SocketMesh::sleep() {
  auto budget = polling_.next_wait();
  if (budget.count() > 0) {
    std::int64_t until = steady_ns() + std::chrono::nanoseconds(budget).count();
    bool found = false;
    do {
      found = take_events(0);
    } while (!found && steady_ns() < until);
    polling_.polled(found);
    if (found) return;
  }
  std::int64_t left = (deadline() - steady_ns()) / 1'000'000 + 1;
  take_events(static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
}

bool SocketMesh::take_events(int timeout_ms) {
  epoll_event events[kEvents];
  int n = ::epoll_wait(epoll_.get(), events, kEvents, timeout_ms);
  for (int i = 0; i < n; ++i) {
    int rank = static_cast<int>(events[i].data.u32);
    if (rank == rank_) {
      std::uint64_t count;
      static_cast<void>(!::read(wake_.get(), &count, sizeof count));
      continue;
    }
    Peer& p = peer(rank);
    if ((events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) p.readable = true;
    if ((events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) p.writable = true;
  }
  return n > 0;
}

// ---- failure ----

// Names all whose connections have ended by now: one of them may be the cause of the others.
void SocketMesh::fail_lost(const std::string& what, int first) {
  std::vector<int> lost;
  for (Peer& p : peers_) {
    char byte;
    ssize_t n = p.socket ? ::recv(p.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;
    bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (p.rank == first || ended) lost.push_back(p.rank);
  }
  fail(connections_lost(rank_, what, std::move(lost)));
}

// After a failure connections are reset, so that the other side hears of it. Else what was sent still
// arrives: the other ranks may be in the last operation yet.
void SocketMesh::close() {
  bool broken = failed();
  fail({Error(ErrorKind::cancelled, "the group was closed"), {}, false});
  for (Peer& p : peers_) {
    linger now{1, 0};
    if (broken && p.socket) ::setsockopt(p.socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  peers_.clear();
  active_.clear();
}

}  // namespace

std::unique_ptr<Mesh> make_socket_mesh(int rank, int size, std::string host, std::optional<Token> token) {
  return std::make_unique<SocketMesh>(rank, size, std::move(host), std::move(token));
}

}  // namespace troupe
