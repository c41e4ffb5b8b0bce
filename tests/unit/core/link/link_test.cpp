// What every link does, for both kinds.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>

#include "tests/unit/core/link/endpoint.h"

namespace troupe::test {
namespace {

template <class Kind>
class LinkTest : public ::testing::Test {};
using Kinds = ::testing::Types<RingKind, TcpKind>;
TYPED_TEST_SUITE(LinkTest, Kinds);

// Both ends in one thread: moves the sender's backlog on and receives, until `count` frames are there.
void pump_until(Endpoint& from, Endpoint& to, Checker& checker, std::uint64_t count) {
  Checker nothing;
  while (checker.next < count) {
    from.link->receive(nothing, 1);
    from.link->flush();
    if (to.link->receive(checker, 64) == 0 && from.link->backlog() == 0) {
      ASSERT_FALSE(to.link->closed()) << to.link->close_reason();
      if (to.link->prepare_sleep()) {
        ASSERT_TRUE(to.wait(30'000));
      }
      to.link->cancel_sleep();
    }
  }
}

TYPED_TEST(LinkTest, DeliversInOrderAndAnySize) {
  auto [a, b] = TypeParam::make();
  std::vector<std::size_t> sizes = {0, 8, 64, 4096, 65408, 65472, 65480, 262144, 1u << 20, 4u << 20, 8, 16};
  std::uint64_t n = 0;
  for (std::size_t size : sizes) ASSERT_TRUE(send(*a.link, size, n++));
  a.link->flush();
  Checker checker;
  pump_until(a, b, checker, sizes.size());
  EXPECT_TRUE(checker.right);
  EXPECT_EQ(checker.sizes, sizes);
}

TYPED_TEST(LinkTest, MemoryIsZeroedAndAligned) {
  auto [a, b] = TypeParam::make();
  struct : Link::Sink {
    void on_frame(std::span<const std::byte>) override {}
  } ignore;
  for (int round = 0; round < 3000; ++round) {
    std::size_t size = 8 * static_cast<std::size_t>(1 + round % 100);
    std::byte* at = a.link->begin_frame(size);
    ASSERT_NE(at, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % 8, 0u);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(at[i], std::byte{0});
    std::memset(at, 0xff, size);
    a.link->end_frame();
    a.link->flush();
    while (b.link->receive(ignore, 64) != 0) {
    }
  }
}

TYPED_TEST(LinkTest, NothingIsVisibleBeforeFlush) {
  auto [a, b] = TypeParam::make();
  Checker checker;
  ASSERT_TRUE(send(*a.link, 64, 0));
  EXPECT_EQ(b.link->receive(checker, 10), 0u);
  a.link->flush();
  pump_until(a, b, checker, 1);
  EXPECT_TRUE(checker.right);
}

TYPED_TEST(LinkTest, FullLinkKeepsABacklogAndGoesOn) {
  auto [a, b] = TypeParam::make();
  std::uint64_t n = 0;
  while (a.link->backlog() < (1u << 20)) {
    ASSERT_TRUE(send(*a.link, 8 * (1 + n % 900), n));
    ++n;
    if (n % 16 == 0) a.link->flush();
  }
  Checker checker;
  pump_until(a, b, checker, n);
  EXPECT_TRUE(checker.right);
  EXPECT_EQ(a.link->backlog(), 0u);
}

TYPED_TEST(LinkTest, BacklogIsBounded) {
  constexpr std::size_t kLimit = 1u << 20;
  auto [a, b] = TypeParam::make(kLimit);
  std::uint64_t n = 0;
  while (send(*a.link, 32768, n)) {
    ++n;
    a.link->flush();
    ASSERT_LE(a.link->backlog(), kLimit);
    ASSERT_LT(n, 100'000u);
  }
  EXPECT_FALSE(a.link->closed());
  Checker checker;
  pump_until(a, b, checker, n);
  EXPECT_TRUE(checker.right);
  EXPECT_TRUE(send(*a.link, 32768, n));
}

TYPED_TEST(LinkTest, RefusesImpossibleSizes) {
  auto [a, b] = TypeParam::make();
  EXPECT_EQ(a.link->begin_frame(kMaxFrame + 8), nullptr);
  EXPECT_EQ(a.link->begin_frame(12), nullptr);
}

TYPED_TEST(LinkTest, FramesInFlightArriveAfterClose) {
  auto [a, b] = TypeParam::make();
  for (std::uint64_t n = 0; n < 100; ++n) ASSERT_TRUE(send(*a.link, 128, n));
  a.link->close("done");
  EXPECT_TRUE(a.link->closed());
  EXPECT_EQ(a.link->close_reason(), "done");
  EXPECT_EQ(a.link->begin_frame(8), nullptr);
  Checker checker;
  while (!b.link->closed()) {
    if (b.link->receive(checker, 7) == 0) {
      ASSERT_TRUE(b.sleep());
    }
  }
  EXPECT_EQ(checker.next, 100u);
  EXPECT_TRUE(checker.right);
  EXPECT_FALSE(b.link->close_reason().empty());
  EXPECT_EQ(b.link->begin_frame(8), nullptr);
}

TYPED_TEST(LinkTest, ReceiveMayNestInsideAFrame) {
  auto [a, b] = TypeParam::make();
  constexpr std::uint64_t kFrames = 2000;
  for (std::uint64_t n = 0; n < kFrames; ++n) ASSERT_TRUE(send(*a.link, 8 * (1 + n % 300), n));
  a.link->flush();
  struct Nested final : Link::Sink {
    Endpoint* from;
    Link* link;
    Checker checker;
    Checker nothing;
    int depth = 0;
    bool kept = true;
    void on_frame(std::span<const std::byte> frame) override {
      std::vector<std::byte> before(frame.begin(), frame.end());
      checker.on_frame(frame);
      ++depth;
      from->link->receive(nothing, 1);
      if (depth < 5) link->receive(*this, 3);
      --depth;
      kept = kept && std::equal(before.begin(), before.end(), frame.begin());
    }
  } nested;
  nested.from = &a;
  nested.link = b.link.get();
  while (nested.checker.next < kFrames) {
    b.link->receive(nested, 50);
    a.link->receive(nested.nothing, 1);
    ASSERT_FALSE(b.link->closed());
  }
  EXPECT_TRUE(nested.checker.right);
  EXPECT_TRUE(nested.kept);
}

TYPED_TEST(LinkTest, CloseInsideAFrameStopsDelivery) {
  auto [a, b] = TypeParam::make();
  for (std::uint64_t n = 0; n < 10; ++n) ASSERT_TRUE(send(*a.link, 64, n));
  a.link->flush();
  struct Closer final : Link::Sink {
    Link* link;
    int frames = 0;
    void on_frame(std::span<const std::byte>) override {
      if (++frames == 3) link->close("enough");
    }
  } closer;
  closer.link = b.link.get();
  while (!b.link->closed()) {
    if (b.link->receive(closer, 100) == 0) {
      ASSERT_TRUE(b.sleep());
    }
  }
  EXPECT_EQ(closer.frames, 3);
  while (!a.link->closed()) {
    Checker nothing;
    if (a.link->receive(nothing, 1) == 0) {
      ASSERT_TRUE(a.sleep());
    }
  }
}

TYPED_TEST(LinkTest, PeerKilledWhileWriting) {
  auto [a, b] = TypeParam::make();
  pid_t child = check(::fork(), "fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    b.link.reset();
    std::size_t sizes[] = {64, 8, 300'000, 4096, 1u << 20};
    for (std::uint64_t n = 0;; ++n) {
      while (!send(*a.link, sizes[n % 5], n)) a.link->flush();
      a.link->flush();
    }
  }
  a.link.reset();  // closes this process's copies only
  Checker checker;
  bool killed = false;
  while (!b.link->closed()) {
    if (b.link->receive(checker, 16) == 0) {
      ASSERT_TRUE(b.sleep());
    }
    if (!killed && checker.next > 500) {
      ::kill(child, SIGKILL);
      killed = true;
    }
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(killed);
  EXPECT_TRUE(checker.right);
  EXPECT_NE(b.link->close_reason().find("died"), std::string::npos) << b.link->close_reason();
}

TYPED_TEST(LinkTest, WriterSurvivesThePeersDeathWithAFullLink) {
  auto [a, b] = TypeParam::make(4u << 20);
  pid_t child = check(::fork(), "fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    a.link.reset();
    for (;;) ::pause();
  }
  b.link.reset();
  for (std::uint64_t n = 0; send(*a.link, 4096, n); ++n) a.link->flush();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  Checker nothing;
  while (!a.link->closed()) {
    if (a.link->receive(nothing, 1) == 0) {
      ASSERT_TRUE(a.sleep());
    }
  }
  EXPECT_EQ(a.link->begin_frame(8), nullptr);
  EXPECT_EQ(a.link->backlog(), 0u);
}

}  // namespace
}  // namespace troupe::test
