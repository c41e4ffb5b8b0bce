// Objects between hosts: one that is fetched by another host, beside a plain TCP stream of as many bytes; and
// one that eight hosts fetch at once, beside one of them alone.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/bench/actors.h"
#include "tools/bench/harness.h"

namespace troupe::bench {

double Blob::fetch(const ObjectRef<std::vector<std::byte>>& object) const {
  double begin = seconds_now();
  if (object.get()->size() != object.size()) std::abort();
  return seconds_now() - begin;
}

namespace {

constexpr std::size_t kSize = std::size_t{1} << 30, kPiece = 1 << 20;

const char* demand(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) {
    std::fprintf(stderr, "bench: this case runs between hosts; use `troupe bench`\n");
    std::exit(2);
  }
  return value;
}

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

// Sends from memory that was touched; the far side receives into one buffer and answers when it has all.
double stream_gbps() {
  static const std::vector<std::byte> data(kSize, std::byte{5});
  std::string sink = demand("TROUPE_BENCH_SINK");
  auto colon = sink.rfind(':');
  sockaddr_in address = address_of(sink.substr(0, colon), std::atoi(sink.c_str() + colon + 1));
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  double begin = seconds_now();
  for (std::size_t sent = 0; sent < kSize;) {
    ssize_t n = ::send(fd, data.data() + sent, std::min(kPiece, kSize - sent), MSG_NOSIGNAL);
    if (n <= 0) std::abort();
    sent += static_cast<std::size_t>(n);
  }
  char done = 0;
  if (::recv(fd, &done, 1, 0) != 1) std::abort();
  double rate = kSize / (seconds_now() - begin) / 1e9;
  ::close(fd);
  return rate;
}

Handle<Blob> blob_on(const std::string& node) {
  return spawn<Blob>(ActorOptions().node(node).isolation(Isolation::process));
}

ObjectRef<std::vector<std::byte>> fresh() {
  static const std::vector<std::byte> data(kSize, std::byte{9});
  return put(std::span(data));
}

double pull_seconds() {
  static Handle<Blob> far = blob_on(demand("TROUPE_BENCH_NODE"));
  auto object = fresh();
  return far.call<&Blob::fetch>(object).get();
}

double pull_gbps() { return kSize / pull_seconds() / 1e9; }

double broadcast_seconds() {
  static std::vector<Handle<Blob>> all = [] {
    std::vector<Handle<Blob>> blobs;
    std::string first = demand("TROUPE_BENCH_NODE");
    int hosts = std::atoi(demand("TROUPE_BENCH_HOSTS"));
    for (int i = 1; i <= hosts; ++i) blobs.push_back(blob_on(i == 1 ? first : first + std::to_string(i)));
    for (auto& blob : blobs) (void)blob.call<&Blob::take>(Tensor::from(std::vector<float>{1})).get();
    return blobs;
  }();
  auto object = fresh();
  double begin = seconds_now();
  std::vector<Future<double>> fetched;
  for (auto& blob : all) fetched.push_back(blob.call<&Blob::fetch>(object));
  for (auto& one : fetched) one.get();
  return seconds_now() - begin;
}

}  // namespace

// The other host's end of the plain stream: `troupe-bench --sink PORT`.
int serve_sink(int port) {
  int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  ::setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = address_of("0.0.0.0", port);
  if (::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening, 4) != 0)
    return 1;
  static std::vector<std::byte> buffer(kPiece, std::byte{1});
  for (;;) {
    int fd = ::accept(listening, nullptr, nullptr);
    if (fd < 0) return 1;
    std::size_t got = 0;
    while (got < kSize) {
      ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    if (got == kSize) (void)::send(fd, "!", 1, MSG_NOSIGNAL);
    ::close(fd);
  }
}

std::vector<Case> object_host_cases() {
  Case pull{"object_pull", "GB/s", "an object of 1 GiB fetched by another host; floor: a TCP stream",
            pull_gbps, stream_gbps};
  Case broadcast{"object_broadcast", "s",
                 "1 GiB fetched by eight hosts at once, links of 1 Gbit/s; floor: by one of them",
                 broadcast_seconds, pull_seconds};
  // All hosts share one machine's cores, so this measures how much they copy.
  Case unlimited{"object_broadcast_unlimited", "s", "the same without a limit to the links",
                 broadcast_seconds, pull_seconds};
  pull.remote = broadcast.remote = unlimited.remote = true;
  broadcast.runs = unlimited.runs = 3;
  return {pull, broadcast, unlimited};
}

}  // namespace troupe::bench
