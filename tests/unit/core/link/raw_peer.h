// A link whose other side is the test itself: it writes raw bytes, publishes or not, rings or not, and
// vanishes. One interface for rings and TCP, so that one suite of faults and one fuzz target serve both.
#pragma once

#include <memory>

#include "core/link/ring_memory.h"
#include "tests/unit/core/link/endpoint.h"

namespace troupe::test {

class RawRing {
 public:
  static constexpr const char* kName = "ring";
  explicit RawRing(std::size_t backlog_limit = kDefaultBacklog) {
    UniqueFd memory;
    Ends ends = RingKind::make(backlog_limit, &memory, &socket_);
    map_ = must(RingMemory::map(memory));
    victim = std::move(ends.first);
    peer_doorbell = std::move(ends.second.doorbell);
  }

  Endpoint victim;
  UniqueFd peer_doorbell;  // which the victim rings

  // Where it stands in the stream of bytes; not yet visible.
  void write(std::span<const std::byte> bytes) {
    for (std::byte b : bytes) data()[at_++ % kDefaultRing] = b;
  }
  void publish() { incoming()->head.store(at_); }
  void ring() {
    std::uint64_t one = 1;
    while (::write(victim.doorbell.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  void vanish() { socket_.reset(); }
  // Any word of the shared memory, the control words among them.
  void scribble(std::uint64_t place, std::uint64_t word) {
    place = place % (map_.mapping.size() / 8) * 8;
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(map_.mapping.data() + place), word, __ATOMIC_RELAXED);
  }

 private:
  RingControl* incoming() { return map_.control(1); }  // the creator, who is the victim, reads ring 1
  std::byte* data() { return map_.data(1); }

  RingMemory map_;
  UniqueFd socket_;
  std::uint64_t at_ = 0;
};

class RawTcp {
 public:
  static constexpr const char* kName = "tcp";
  explicit RawTcp(std::size_t backlog_limit = kDefaultBacklog) {
    auto [near, far] = connected_sockets();
    victim.attach(must(TcpLink::open(std::move(near), backlog_limit)));
    socket_ = std::move(far);
  }

  Endpoint victim;

  void write(std::span<const std::byte> bytes) { unsent_.insert(unsent_.end(), bytes.begin(), bytes.end()); }
  void publish() {
    while (!unsent_.empty()) {
      ssize_t n = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;  // the victim does not read, or has closed
      unsent_.erase(unsent_.begin(), unsent_.begin() + n);
    }
    unsent_.clear();
  }
  void ring() {}
  void vanish() { socket_.reset(); }
  void scribble(std::uint64_t, std::uint64_t word) { write(std::as_bytes(std::span(&word, 1))); }

 private:
  UniqueFd socket_;
  std::vector<std::byte> unsent_;
};

inline std::vector<std::byte> header_bytes(std::uint32_t length, std::uint32_t flags) {
  alignas(8) std::byte bytes[kFrameHeader];
  store_header(bytes, {length, flags});
  return {bytes, bytes + sizeof bytes};
}
// A whole frame, number `n` of fill().
inline std::vector<std::byte> frame_bytes(std::size_t size, std::uint64_t n) {
  auto bytes = header_bytes(static_cast<std::uint32_t>(size), kWhole);
  bytes.resize(kFrameHeader + size);
  fill(bytes.data() + kFrameHeader, size, n);
  return bytes;
}

}  // namespace troupe::test
