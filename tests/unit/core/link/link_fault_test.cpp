// A peer that dies, stops or lies at any point: the survivor's memory stays sound and the link ends, or goes
// on. The same suite for both kinds of link; what only rings have is in hostile_peer_test.cpp.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/core/link/raw_peer.h"

namespace troupe::test {
namespace {

template <class Raw>
struct Scene {
  Raw raw;
  Link& victim() { return *raw.victim.link; }
  Checker checker;

  void publish(std::span<const std::byte> bytes) {
    raw.write(bytes);
    raw.publish();
    raw.ring();
  }
  // Reads and sleeps until the link has ended.
  void read_to_the_end() {
    while (!victim().closed()) {
      if (victim().receive(checker, 10) == 0 && !victim().closed()) {
        ASSERT_TRUE(raw.victim.sleep()) << "nobody woke it";
      }
    }
    EXPECT_EQ(victim().begin_frame(8), nullptr);
    EXPECT_EQ(victim().receive(checker, 10), 0u);
    EXPECT_EQ(victim().backlog(), 0u);
    EXPECT_FALSE(victim().close_reason().empty());
  }
};

template <class Raw>
struct LinkFaultTest : public ::testing::Test, public Scene<Raw> {};

struct Names {
  template <class Raw>
  static std::string GetName(int) {
    return Raw::kName;
  }
};
using Raws = ::testing::Types<RawRing, RawTcp>;
TYPED_TEST_SUITE(LinkFaultTest, Raws, Names);

TYPED_TEST(LinkFaultTest, AFalseHeaderEndsItAfterWhatCameBefore) {
  const std::pair<std::uint32_t, std::uint32_t> headers[] = {
      {12, kWhole}, {1, kWhole}, {0xffffffff, kWhole}, {kMaxFrame + 8, kWhole}, {8, 7}, {8, 0x80000000u}};
  for (auto [length, flags] : headers) {
    Scene<TypeParam> one;
    one.publish(frame_bytes(24, 0));
    auto bytes = header_bytes(length, flags);
    bytes.resize(64);
    one.publish(bytes);
    ASSERT_NO_FATAL_FAILURE(one.read_to_the_end());
    EXPECT_EQ(one.checker.next, 1u);
    EXPECT_TRUE(one.checker.right);
    EXPECT_TRUE(one.victim().peer_at_fault()) << one.victim().close_reason();
  }
}

TYPED_TEST(LinkFaultTest, DiesBetweenReservingAndPublishing) {
  this->publish(frame_bytes(16, 0));
  auto half = frame_bytes(4096, 1);
  half.resize(2000);
  this->raw.write(half);
  if (std::is_same_v<TypeParam, RawTcp>) this->raw.publish();  // what the kernel had taken already
  this->raw.vanish();
  ASSERT_NO_FATAL_FAILURE(this->read_to_the_end());
  EXPECT_EQ(this->checker.next, 1u);
  EXPECT_TRUE(this->checker.right);
  EXPECT_FALSE(this->victim().peer_at_fault());
}

TYPED_TEST(LinkFaultTest, DiesBeforeItRings) {
  ASSERT_TRUE(this->victim().prepare_sleep());
  this->raw.write(frame_bytes(800, 0));
  this->raw.publish();
  this->raw.vanish();
  ASSERT_TRUE(this->raw.victim.wait(30'000));
  this->victim().cancel_sleep();
  ASSERT_NO_FATAL_FAILURE(this->read_to_the_end());
  EXPECT_EQ(this->checker.next, 1u);
  EXPECT_TRUE(this->checker.right);
}

TYPED_TEST(LinkFaultTest, StopsWithItsSideFullAndDies) {
  TypeParam raw(1 << 20);
  Link& victim = *raw.victim.link;
  std::uint64_t sent = 0;
  while (send(victim, 8192, sent)) {
    ++sent;
    victim.flush();
  }
  EXPECT_GT(sent, 1u);
  EXPECT_LE(victim.backlog(), (1u << 20) + 8192u + kFrameHeader);
  EXPECT_FALSE(victim.closed());
  raw.vanish();
  while (!victim.closed()) {
    victim.receive(this->checker, 10);
    if (!victim.closed()) {
      ASSERT_TRUE(raw.victim.sleep());
    }
  }
  EXPECT_EQ(victim.backlog(), 0u);
}

TYPED_TEST(LinkFaultTest, GarbageEndsItOrIsIgnored) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Scene<TypeParam> one;
    std::mt19937_64 random(seed);
    std::vector<std::byte> bytes(8 + random() % 4096);
    for (auto& b : bytes) b = static_cast<std::byte>(random() >> random() % 56);
    one.publish(bytes);
    one.raw.vanish();
    ASSERT_NO_FATAL_FAILURE(one.read_to_the_end());
  }
}

// A doorbell that nobody empties takes no more rings; nobody waits for it.
TEST(RingFaultTest, TheDoorbellIsFull) {
  RawRing raw;
  std::uint64_t almost = ~std::uint64_t{1};
  ASSERT_EQ(::write(raw.peer_doorbell.get(), &almost, sizeof almost), 8);
  for (std::uint64_t n = 0; n < 1000; ++n) {
    raw.scribble(2 * 128 / 8, 1);  // "the reader sleeps", of the ring that the victim writes
    if (send(*raw.victim.link, 8, n)) raw.victim.link->flush();
  }
  EXPECT_FALSE(raw.victim.link->closed());
}

}  // namespace
}  // namespace troupe::test
