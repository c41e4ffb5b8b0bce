// Sleep and wake under stress: both sides send, receive, pause at random and sleep without a time-out of
// their own. A lost wake-up, of data or of space, would hang; a watchdog turns that into a failure.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/unit/core/link/endpoint.h"

namespace troupe::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kFrames = 8'000;
#else
constexpr std::uint64_t kFrames = 30'000;
#endif

template <class Kind>
class LinkStressTest : public ::testing::Test {};
using Kinds = ::testing::Types<RingKind, TcpKind>;
TYPED_TEST_SUITE(LinkStressTest, Kinds);

void spin(std::mt19937_64& random) {
  // Lengths around those of a publish or a wake-up, so that the two sides meet in all orders.
  std::uint64_t turns = std::uint64_t{1} << random() % 12;
  for (std::uint64_t i = 0; i < turns; ++i) {
    asm volatile("");
  }
}

// `bulk`: large frames and bursts, so that the ring is mostly full; otherwise it is mostly empty.
void run(Endpoint& end, std::uint64_t seed, bool bulk, std::uint64_t frames, bool& woken, Checker& checker) {
  std::mt19937_64 random(seed);
  std::uint64_t sent = 0;
  while (sent < frames || checker.next < frames || end.link->backlog() != 0) {
    std::uint64_t burst = random() % (bulk ? 64 : 2);
    for (std::uint64_t i = 0; i < burst && sent < frames; ++i) {
      std::size_t size = 8 * (random() % (bulk ? 1500 : 16));
      if (bulk && random() % 256 == 0) size = 8 * (random() % 40'000);
      if (!send(*end.link, size, sent)) break;
      ++sent;
    }
    end.link->flush();
    bool idle = end.link->receive(checker, 1 + random() % 16) == 0;
    if (random() % 4 == 0) spin(random);
    if (random() % 256 == 0) std::this_thread::yield();
    // A side that has more to send goes on, unless its link is full or chance wants it to sleep until it is
    // rung.
    bool may_send = sent < frames && end.link->backlog() == 0;
    if (idle && !may_send && !(sent == frames && checker.next == frames && end.link->backlog() == 0)) {
      if (!end.sleep()) {
        woken = false;
        return end.link->close("nobody rang");
      }
      if (end.link->closed()) return;
    }
  }
}

void both(Ends ends, bool bulk, std::uint64_t frames) {
  bool woken[2] = {true, true};
  Checker checkers[2];
  std::thread other([&] { run(ends.second, 2, bulk, frames, woken[1], checkers[1]); });
  run(ends.first, 1, bulk, frames, woken[0], checkers[0]);
  other.join();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(woken[i]);
    EXPECT_TRUE(checkers[i].right);
    EXPECT_EQ(checkers[i].next, frames);
  }
}

TYPED_TEST(LinkStressTest, SmallFrames) { both(TypeParam::make(), false, kFrames); }
TYPED_TEST(LinkStressTest, FullLink) { both(TypeParam::make(1u << 20), true, kFrames / 4); }

// Strict ping-pong: each side sleeps before every answer, so each message needs its wake-up.
TYPED_TEST(LinkStressTest, EveryMessageWakes) {
  Ends ends = TypeParam::make();
  constexpr std::uint64_t kRounds = kFrames / 2;
  auto play = [](Endpoint& end, bool first, bool& woken) {
    std::mt19937_64 random(first ? 3 : 4);
    Checker checker;
    for (std::uint64_t n = 0; n < kRounds; ++n) {
      if (first) {
        send(*end.link, 64, n);
        end.link->flush();
      }
      while (checker.next <= n) {
        if (end.link->receive(checker, 1) != 0) continue;
        if (random() % 2) spin(random);
        if (!end.sleep()) {
          woken = false;
          return end.link->close("nobody rang");
        }
        if (end.link->closed()) return;
      }
      if (!first) {
        send(*end.link, 64, n);
        end.link->flush();
      }
    }
    woken = woken && checker.right;
  };
  bool woken[2] = {true, true};
  std::thread other([&] { play(ends.second, false, woken[1]); });
  play(ends.first, true, woken[0]);
  other.join();
  EXPECT_TRUE(woken[0]);
  EXPECT_TRUE(woken[1]);
}

}  // namespace
}  // namespace troupe::test
