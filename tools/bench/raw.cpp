// Floors: what the machine does without us.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/bench/harness.h"

extern char** environ;

namespace troupe::bench {
namespace {

constexpr int kMessage = 64;
constexpr int kRounds = 20'000;

bool read_all(int fd, char* buffer) {
  for (int got = 0; got < kMessage;) {
    ssize_t n = ::read(fd, buffer + got, static_cast<std::size_t>(kMessage - got));
    if (n <= 0) return false;
    got += static_cast<int>(n);
  }
  return true;
}

bool write_all(int fd, const char* buffer) { return ::write(fd, buffer, kMessage) == kMessage; }

void echo(int fd) {
  char buffer[kMessage];
  while (read_all(fd, buffer) && write_all(fd, buffer)) {
  }
}

double ping_pong_us(int fd) {
  char buffer[kMessage] = {};
  auto round = [&] {
    if (!write_all(fd, buffer) || !read_all(fd, buffer)) {
      std::fprintf(stderr, "bench: the echo process ended\n");
      std::exit(1);
    }
  };
  for (int i = 0; i < kRounds / 10; ++i) round();
  double begin = seconds_now();
  for (int i = 0; i < kRounds; ++i) round();
  return (seconds_now() - begin) / kRounds * 1e6;
}

double with_child(int ours, int theirs) {
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ours);
    echo(theirs);
    ::_exit(0);
  }
  ::close(theirs);
  double value = ping_pong_us(ours);
  ::close(ours);
  ::waitpid(child, nullptr, 0);
  return value;
}

int connect_to(const char* host, int port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &to.sin_addr);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    std::perror("bench: connect");
    std::exit(1);
  }
  int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

int listen_any(int port, int* bound) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = port == 0 ? htonl(INADDR_LOOPBACK) : htonl(INADDR_ANY);
  socklen_t size = sizeof at;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(fd, 8) != 0) {
    std::perror("bench: listen");
    std::exit(1);
  }
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  *bound = ntohs(at.sin_port);
  return fd;
}

}  // namespace

// The second host's echo: `troupe-bench --echo PORT`.
int serve_echo(int port) {
  int bound = 0;
  int listening = listen_any(port, &bound);
  for (;;) {
    int fd = ::accept(listening, nullptr, nullptr);
    if (fd < 0) return 1;
    int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    echo(fd);
    ::close(fd);
  }
}

double raw_socket_us() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) std::abort();
  return with_child(fds[0], fds[1]);
}

double raw_tcp_us() {
  if (const char* address = std::getenv("TROUPE_BENCH_ECHO")) {
    std::string text = address;
    auto colon = text.rfind(':');
    int fd = connect_to(text.substr(0, colon).c_str(), std::atoi(text.c_str() + colon + 1));
    double value = ping_pong_us(fd);
    ::close(fd);
    return value;
  }
  int port = 0;
  int listening = listen_any(0, &port);
  pid_t child = ::fork();
  if (child == 0) {
    int fd = ::accept(listening, nullptr, nullptr);
    int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    echo(fd);
    ::_exit(0);
  }
  ::close(listening);
  int fd = connect_to("127.0.0.1", port);
  double value = ping_pong_us(fd);
  ::close(fd);
  ::waitpid(child, nullptr, 0);
  return value;
}

double start_and_reap_rate() {
  constexpr int kStarts = 200;
  char self[] = "/proc/self/exe";
  char flag[] = "--exit-at-once";
  char* args[] = {self, flag, nullptr};
  double begin = seconds_now();
  for (int i = 0; i < kStarts; ++i) {
    pid_t child = 0;
    if (::posix_spawn(&child, self, nullptr, nullptr, args, environ) != 0) std::abort();
    ::waitpid(child, nullptr, 0);
  }
  return kStarts / (seconds_now() - begin);
}

Burners::Burners() {
  for (int& pid : pids_) {
    pid = ::fork();
    if (pid == 0) {
      for (unsigned long x = 0;; ++x) {
        asm volatile("" : "+r"(x));
        if (x % 1'000'000 == 0 && ::getppid() == 1) ::_exit(0);
      }
    }
  }
}

Burners::~Burners() {
  for (int pid : pids_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

std::vector<Case> raw_cases() {
  Case socket{
      "raw_socket", "µs", "64-byte round trip between two processes over a Unix socket", raw_socket_us, {}};
  Case tcp{"raw_tcp", "µs", "64-byte round trip between two processes over TCP", raw_tcp_us, {}};
  socket.cluster = tcp.cluster = false;
  return {socket, tcp};
}

}  // namespace troupe::bench
