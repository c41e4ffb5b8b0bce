// What a peer may do to a link with false bytes: at most end it, with a reason.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/link/ring_memory.h"
#include "tests/unit/core/link/endpoint.h"

namespace troupe::test {
namespace {

// The near side is a RingLink; the far side is this test, which writes into the memory as it likes.
struct HostileRing {
  UniqueFd memory;
  Ends ends = RingKind::make(kDefaultBacklog, &memory);
  RingMemory map = must(RingMemory::map(memory));
  RingControl* incoming = map.control(1);  // the creator reads ring 1 and writes ring 0
  std::byte* data = map.data(1);
  Link& victim = *ends.first.link;
  Checker checker;

  void publish(std::uint64_t head) { incoming->head.store(head); }
  void expect_closed(const std::string& reason) {
    victim.receive(checker, 100);
    EXPECT_TRUE(victim.closed());
    EXPECT_NE(victim.close_reason().find(reason), std::string::npos) << victim.close_reason();
    EXPECT_EQ(victim.begin_frame(8), nullptr);
    EXPECT_EQ(victim.receive(checker, 100), 0u);
  }
};

TEST(HostileRingTest, FalseLength) {
  for (std::uint32_t length : {12u, 1u, 65480u, 0xfffffff8u, 0xffffffffu, 64u}) {
    HostileRing ring;
    store_header(ring.data, {length, kWhole});
    ring.publish(64);  // shorter than any of the lengths that are otherwise possible
    ring.expect_closed(length % 8 ? "header" : "length");
  }
}

TEST(HostileRingTest, FalseFlags) {
  for (std::uint32_t flags : {3u, 4u, 0xffffffffu}) {
    HostileRing ring;
    store_header(ring.data, {8, flags});
    ring.publish(16);
    ring.expect_closed("header");
  }
}

TEST(HostileRingTest, FalseSkips) {
  HostileRing at_start;
  store_header(at_start.data, {0, kSkip});
  at_start.publish(kDefaultRing);
  at_start.expect_closed("skip");
  HostileRing unfinished;
  store_header(unfinished.data, {0, kWhole});
  store_header(unfinished.data + 8, {0, kSkip});
  unfinished.publish(16);
  unfinished.expect_closed("skip");
}

TEST(HostileRingTest, EmptyFragmentsDoNotGoOnForEver) {
  HostileRing ring;
  store_header(ring.data, {0, kMore});
  ring.publish(8);
  ring.expect_closed("header");
}

TEST(HostileRingTest, FalseWriteIndex) {
  for (std::uint64_t head :
       {std::uint64_t{kDefaultRing} + 8, ~std::uint64_t{0}, ~std::uint64_t{7}, std::uint64_t{9}}) {
    HostileRing ring;
    ring.publish(head);
    ring.expect_closed("write index");
  }
}

TEST(HostileRingTest, FalseReadIndex) {
  for (std::uint64_t tail : {std::uint64_t{1} << 40, ~std::uint64_t{7}, std::uint64_t{3}}) {
    HostileRing ring;
    ring.map.control(0)->tail.store(tail);
    for (std::uint64_t n = 0; n < 100 && !ring.victim.closed(); ++n) {
      send(ring.victim, 8192, n);
      ring.victim.flush();
    }
    EXPECT_TRUE(ring.victim.closed());
    EXPECT_NE(ring.victim.close_reason().find("read index"), std::string::npos) << ring.victim.close_reason();
  }
}

TEST(HostileRingTest, FrameLongerThanTheLimit) {
  HostileRing ring;
  const std::size_t piece = max_piece(kDefaultRing);
  std::uint64_t head = 0;
  std::uint64_t frames = 0;
  while (!ring.victim.closed() && frames++ < 2 * kMaxFrame / piece) {
    std::size_t place = head % kDefaultRing;
    if (kDefaultRing - place < piece + kFrameHeader) {
      store_header(ring.data + place, {0, kSkip});
      head += kDefaultRing - place;
      place = 0;
    }
    store_header(ring.data + place, {static_cast<std::uint32_t>(piece), kMore});
    head += piece + kFrameHeader;
    ring.publish(head);
    ring.victim.receive(ring.checker, 1);
  }
  EXPECT_TRUE(ring.victim.closed());
  EXPECT_EQ(ring.checker.next, 0u);
}

TEST(HostileRingTest, BytesOnTheLivenessSocketCloseTheLink) {
  UniqueFd socket;
  Ends ends = RingKind::make(kDefaultBacklog, nullptr, &socket);
  ASSERT_EQ(::write(socket.get(), "x", 1), 1);
  while (!ends.first.link->closed()) ASSERT_TRUE(ends.first.sleep());
  EXPECT_NE(ends.first.link->close_reason().find("liveness"), std::string::npos);
}

// Scribbles over everything between the turns of the victim. Which way it ends is open; sanitizers watch the
// memory.

TEST(HostileRingTest, SurvivesScribbling) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    HostileRing ring;
    std::mt19937_64 random(seed);
    struct : Link::Sink {
      std::uint64_t sum = 0;
      void on_frame(std::span<const std::byte> frame) override {
        for (std::byte b : frame) sum += static_cast<std::uint64_t>(b);
      }
    } sink;
    for (int turn = 0; turn < 3000 && !ring.victim.closed(); ++turn) {
      std::uint64_t place = 8 * (random() % (ring.map.mapping.size() / 8));
      if (random() % 8 == 0) place = random() % 2 ? 0 : 1024;  // indices and flags
      std::uint64_t word = random() >> random() % 64 & ~(random() % 4 ? std::uint64_t{7} : 0);
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(ring.map.mapping.data() + place), word,
                       __ATOMIC_RELAXED);
      if (random() % 16 == 0) ring.publish(ring.incoming->head.load() + 8 * (random() % 512));
      if (send(ring.victim, 8 * (random() % 4000), 0)) ring.victim.flush();
      ring.victim.receive(sink, 10);
      if (ring.victim.prepare_sleep()) ring.victim.cancel_sleep();
    }
  }
}

TEST(RingMemoryTest, RefusesFalseMemory) {
  EXPECT_FALSE(create_ring_memory(1000));
  EXPECT_FALSE(create_ring_memory(kLargestRing * 2));
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096 + 2 * kDefaultRing), 0);
  auto mapped = RingMemory::map(unsealed);
  ASSERT_FALSE(mapped);
  EXPECT_NE(mapped.error().message.find("sealed"), std::string::npos);
  UniqueFd odd(::memfd_create("odd", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(odd.get(), 5000), 0);
  EXPECT_FALSE(RingMemory::map(odd));
  UniqueFd good = must(create_ring_memory(kSmallestRing));
  EXPECT_NE(::ftruncate(good.get(), 0), 0);
  auto small = RingMemory::map(good);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->capacity, kSmallestRing);
  EXPECT_FALSE(RingLink::open({}));
}

TEST(HostileTcpTest, FalseHeaders) {
  const FrameHeader headers[] = {{12, 0}, {0xffffffff, 0}, {kMaxFrame + 8, 0}, {8, 1}, {8, 0x80000000u}};
  for (FrameHeader header : headers) {
    auto [near, far] = connected_sockets();
    Endpoint end;
    end.attach(must(TcpLink::open(std::move(near))));
    std::byte bytes[32] = {};
    store_header(bytes, {8, 0});
    store_header(bytes + 16, header);
    ASSERT_EQ(::write(far.get(), bytes, sizeof bytes), 32);
    struct : Link::Sink {
      int frames = 0;
      void on_frame(std::span<const std::byte>) override { ++frames; }
    } sink;
    while (!end.link->closed()) {
      if (end.link->receive(sink, 10) == 0) {
        ASSERT_TRUE(end.sleep());
      }
    }
    EXPECT_EQ(sink.frames, 1);
    EXPECT_NE(end.link->close_reason().find("false frame header"), std::string::npos)
        << end.link->close_reason();
  }
}

TEST(HostileTcpTest, TruncatedFrameAndBytesReadByTheHandshake) {
  auto [near, far] = connected_sockets();
  Endpoint end;
  alignas(8) std::byte bytes[24] = {};
  store_header(bytes, {16, 0});
  fill(bytes + 8, 16, 0);
  end.attach(must(TcpLink::open(std::move(near), kDefaultBacklog, {bytes, 13})));
  ASSERT_EQ(::write(far.get(), bytes + 13, 11), 11);
  ASSERT_EQ(::write(far.get(), bytes, 13), 13);
  far.reset();
  Checker checker;
  while (!end.link->closed()) {
    if (end.link->receive(checker, 10) == 0) {
      ASSERT_TRUE(end.sleep());
    }
  }
  EXPECT_EQ(checker.next, 1u);
  EXPECT_TRUE(checker.right);
  EXPECT_NE(end.link->close_reason().find("middle of a frame"), std::string::npos);
}

}  // namespace
}  // namespace troupe::test
