// One side of a link with the part of a lane that a test needs: a doorbell, an epoll set, and waiting on
// them.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/link/ring_link.h"
#include "core/link/tcp_link.h"

namespace troupe::test {

inline int check(int result, const char* what) {
  if (result >= 0) return result;
  std::perror(what);
  std::abort();
}

struct Endpoint {
  std::unique_ptr<Link> link;
  UniqueFd doorbell{check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")};
  UniqueFd epoll{check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")};

  void attach(std::unique_ptr<Link> made) {
    link = std::move(made);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = doorbell.get();
    check(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, doorbell.get(), &event), "epoll_ctl");
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.fd = link->descriptor();
    check(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, link->descriptor(), &event), "epoll_ctl");
  }

  // Waits for the doorbell or the descriptor. The limit is a watchdog: it is reached only when a wake-up is
  // lost.
  bool wait(int limit_ms) {
    epoll_event events[4];
    int n;
    do n = ::epoll_wait(epoll.get(), events, 4, limit_ms);
    while (n < 0 && errno == EINTR);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.fd == doorbell.get()) {
        std::uint64_t count;
        while (::read(doorbell.get(), &count, sizeof count) < 0 && errno == EINTR) {
        }
      } else {
        link->on_ready();
      }
    }
    return n > 0;
  }

  // Sleeps as a lane does. False: nobody woke it.
  bool sleep(int limit_ms = 30'000) {
    if (!link->prepare_sleep()) return true;
    if (link->closed()) return true;
    bool woken = wait(limit_ms);
    link->cancel_sleep();
    return woken;
  }
};

using Ends = std::pair<Endpoint, Endpoint>;

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().describe().c_str());
  std::abort();
}

inline UniqueFd copy(const UniqueFd& fd) {
  return UniqueFd(check(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0), "dup"));
}

struct RingKind {
  static Ends make(std::size_t backlog_limit = kDefaultBacklog, UniqueFd* memory_copy = nullptr,
                   UniqueFd* peer_socket = nullptr) {
    Ends ends;
    UniqueFd memory = must(create_ring_memory());
    if (memory_copy) *memory_copy = copy(memory);
    int pair[2];
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
    UniqueFd near(pair[0]), far(pair[1]);
    if (peer_socket) *peer_socket = copy(far);
    ends.first.attach(must(RingLink::open(
        {copy(memory), RingSide::creator, std::move(near), copy(ends.second.doorbell)}, backlog_limit)));
    ends.second.attach(must(RingLink::open(
        {std::move(memory), RingSide::joiner, std::move(far), copy(ends.first.doorbell)}, backlog_limit)));
    return ends;
  }
};

inline std::pair<UniqueFd, UniqueFd> connected_sockets() {
  UniqueFd listener(check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check(::bind(listener.get(), generic, size), "bind");
  check(::listen(listener.get(), 1), "listen");
  check(::getsockname(listener.get(), generic, &size), "getsockname");
  UniqueFd near(check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  check(::connect(near.get(), generic, size), "connect");
  UniqueFd far(check(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  return {std::move(near), std::move(far)};
}

struct TcpKind {
  static Ends make(std::size_t backlog_limit = kDefaultBacklog) {
    Ends ends;
    auto [near, far] = connected_sockets();
    ends.first.attach(must(TcpLink::open(std::move(near), backlog_limit)));
    ends.second.attach(must(TcpLink::open(std::move(far), backlog_limit)));
    return ends;
  }
};

// Frame number `n`: its number, then words that follow from it.
inline void fill(std::byte* at, std::size_t size, std::uint64_t n) {
  for (std::size_t i = 0; i < size / 8; ++i) {
    std::uint64_t word = n * 0x9E3779B97F4A7C15u + i;
    std::memcpy(at + 8 * i, &word, 8);
  }
}
inline bool send(Link& link, std::size_t size, std::uint64_t n) {
  std::byte* at = link.begin_frame(size);
  if (!at) return false;
  fill(at, size, n);
  link.end_frame();
  return true;
}

// Checks what fill wrote, in order.
struct Checker final : Link::Sink {
  std::uint64_t next = 0;
  std::vector<std::size_t> sizes;
  bool right = true;

  void on_frame(std::span<const std::byte> frame) override {
    if (reinterpret_cast<std::uintptr_t>(frame.data()) % 8 != 0) right = false;
    for (std::size_t i = 0; i < frame.size() / 8; ++i) {
      std::uint64_t word;
      std::memcpy(&word, frame.data() + 8 * i, 8);
      if (word != next * 0x9E3779B97F4A7C15u + i) right = false;
    }
    sizes.push_back(frame.size());
    ++next;
  }
};

}  // namespace troupe::test
