// Measures links between two processes: round trips of a 64-byte frame, sleeping and polling, and throughput
// with 1,000 frames outstanding; beside a raw Unix socket, the floor of what a machine's wake-ups allow.
//
//   link_bench [rounds]
//
// Medians are over batches of round trips, so that a machine that is busy now and then does not spoil them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/link/polling.h"
#include "core/link/ring_link.h"
#include "core/link/tcp_link.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kFrame = 64;
constexpr int kBatch = 100;

int check(int result, const char* what) {
  if (result >= 0) return result;
  std::perror(what);
  std::exit(1);
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// One side of a link, waiting as a lane with this one link would.
struct Side : Link::Sink {
  std::unique_ptr<Link> link;
  UniqueFd doorbell{check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")};
  UniqueFd epoll;
  PollingPolicy policy{std::chrono::microseconds(0)};
  std::uint64_t frames = 0;

  void on_frame(std::span<const std::byte>) override { ++frames; }

  // After the fork: each process needs an epoll set of its own.
  void start(std::chrono::microseconds budget) {
    policy = PollingPolicy(budget);
    epoll.reset(check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = doorbell.get();
    check(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, doorbell.get(), &event), "epoll_ctl");
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.fd = link->descriptor();
    check(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, link->descriptor(), &event), "epoll_ctl");
  }

  void send() {
    if (link->begin_frame(kFrame)) link->end_frame();
  }

  // Receives at least one frame: polls as the policy allows, then sleeps. False when the link is closed.
  bool wait() {
    while (!link->closed()) {
      if (link->receive(*this, 1024) != 0) return true;
      auto budget = policy.next_wait();
      if (budget.count() > 0) {
        auto end = Clock::now() + budget;
        bool found = false;
        for (int turn = 1; !found && (turn % 16 != 0 || Clock::now() < end); ++turn) {
          found = link->receive(*this, 1024) != 0;
          if (!found) __builtin_ia32_pause();
        }
        policy.polled(found);
        if (found) return true;
      }
      if (!link->prepare_sleep()) continue;
      epoll_event events[4];
      int n = ::epoll_wait(epoll.get(), events, 4, -1);
      link->cancel_sleep();
      for (int i = 0; i < n; ++i) {
        std::uint64_t count;
        if (events[i].data.fd != doorbell.get()) {
          link->on_ready();
        } else if (::read(doorbell.get(), &count, sizeof count) < 0) {
          continue;
        }
      }
    }
    return false;
  }
};

using Sides = std::pair<Side, Side>;

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().describe().c_str());
  std::exit(1);
}

std::pair<UniqueFd, UniqueFd> unix_sockets() {
  int pair[2];
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
  return {UniqueFd(pair[0]), UniqueFd(pair[1])};
}

UniqueFd copy(const UniqueFd& fd) { return UniqueFd(check(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0), "dup")); }

void make_ring(Sides& sides) {
  auto& [a, b] = sides;
  UniqueFd memory = must(create_ring_memory());
  auto [near, far] = unix_sockets();
  a.link = must(RingLink::open({copy(memory), RingSide::creator, std::move(near), copy(b.doorbell)}));
  b.link = must(RingLink::open({std::move(memory), RingSide::joiner, std::move(far), copy(a.doorbell)}));
}

void make_tcp(Sides& sides) {
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
  sides.first.link = must(TcpLink::open(std::move(near)));
  sides.second.link = must(TcpLink::open(std::move(far)));
}

// Runs `peer` in a child process and `self` here, then ends the child.
template <class T>
T beside(const std::function<void()>& peer, const std::function<T()>& self) {
  pid_t child = check(::fork(), "fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    peer();
    ::_exit(0);
  }
  T result = self();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return result;
}

double median_round_trip(int rounds, const std::function<void()>& round_trip) {
  std::vector<double> batches;
  for (int i = 0; i < rounds / kBatch; ++i) {
    auto start = Clock::now();
    for (int j = 0; j < kBatch; ++j) round_trip();
    batches.push_back(microseconds_since(start) / kBatch);
  }
  std::nth_element(batches.begin(), batches.begin() + static_cast<long>(batches.size() / 2), batches.end());
  return batches[batches.size() / 2];
}

double floor_round_trip(int rounds) {
  auto [near, far] = unix_sockets();
  char bytes[kFrame] = {};
  auto exchange = [&](int fd, bool first) {
    for (int turn = 0; turn < 2; ++turn) {
      ssize_t n = (turn == 0) == first ? ::write(fd, bytes, kFrame) : ::read(fd, bytes, kFrame);
      if (n != static_cast<ssize_t>(kFrame)) ::_exit(0);
    }
  };
  return beside<double>(
      [&] {
        for (;;) exchange(far.get(), false);
      },
      [&] { return median_round_trip(rounds, [&] { exchange(near.get(), true); }); });
}

// The child answers each frame with one.
void echo(Side& side, std::chrono::microseconds budget) {
  side.start(budget);
  while (side.wait()) {
    for (std::uint64_t n = std::exchange(side.frames, 0); n != 0; --n) side.send();
    side.link->flush();
  }
}

double round_trip(void (*make)(Sides&), std::chrono::microseconds budget, int rounds) {
  Sides sides;
  make(sides);
  auto& [a, b] = sides;
  return beside<double>([&, &b = b] { echo(b, budget); },
                        [&, &a = a] {
                          a.start(budget);
                          return median_round_trip(rounds, [&] {
                            a.send();
                            a.link->flush();
                            a.wait();
                          });
                        });
}

// Frames a second, answers not counted, with 1,000 outstanding.
double throughput(void (*make)(Sides&), std::chrono::microseconds budget, std::uint64_t frames) {
  Sides sides;
  make(sides);
  auto& [a, b] = sides;
  return beside<double>([&, &b = b] { echo(b, budget); },
                        [&, &a = a] {
                          a.start(budget);
                          auto start = Clock::now();
                          std::uint64_t sent = 0;
                          while (a.frames < frames) {
                            for (; sent < frames && sent - a.frames < 1000; ++sent) a.send();
                            a.link->flush();
                            a.wait();
                          }
                          return static_cast<double>(frames) / microseconds_since(start) * 1e6;
                        });
}

int main(int argc, char** argv) {
  int rounds = std::max(argc > 1 ? std::atoi(argv[1]) : 20'000, kBatch);
  std::chrono::microseconds none(0), poll = PollingPolicy::kDefaultBudget;
  double floor = floor_round_trip(rounds);
  std::printf("%-34s %12s %10s\n", "64-byte round trip", "median", "to floor");
  auto row = [&](const char* name, double us) {
    std::printf("%-34s %9.2f us %10.3f\n", name, us, us / floor);
  };
  row("raw Unix socket (floor)", floor);
  row("ring, sleeping", round_trip(make_ring, none, rounds));
  row("ring, polling", round_trip(make_ring, poll, rounds * 10));
  row("TCP loopback, sleeping", round_trip(make_tcp, none, rounds));
  row("TCP loopback, polling", round_trip(make_tcp, poll, rounds));
  std::printf("\n%-34s %12s\n", "64-byte frames, 1,000 outstanding", "frames/s");
  auto rate = [](const char* name, double a_second) {
    std::printf("%-34s %10.2f M\n", name, a_second / 1e6);
  };
  auto frames = static_cast<std::uint64_t>(rounds) * 100;
  rate("ring, sleeping", throughput(make_ring, none, frames));
  rate("ring, polling", throughput(make_ring, poll, frames));
  rate("TCP loopback, sleeping", throughput(make_tcp, none, frames));
  rate("TCP loopback, polling", throughput(make_tcp, poll, frames));
  return 0;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) { return troupe::main(argc, argv); }
