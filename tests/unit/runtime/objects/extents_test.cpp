#include "runtime/objects/extents.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace troupe {
namespace {

TEST(Extents, TakesWhatWasFreedLastBeforeWhatIsFresh) {
  Extents all(64 << 20);
  auto a = all.take(1 << 20), b = all.take(1 << 20), c = all.take(1 << 20);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(all.high_water(), 3u << 20);
  all.free(*a, 1 << 20);
  EXPECT_EQ(all.take(1 << 20), a);
  auto d = all.take(1 << 20), e = all.take(1 << 20);
  all.free(*a, 1 << 20);
  all.free(*c, 1 << 20);
  EXPECT_EQ(all.take(1 << 20), c) << "the last freed is the warmest";
  EXPECT_EQ(all.take(1 << 20), a);
  EXPECT_TRUE(d && e);
}

TEST(Extents, NeighboursJoin) {
  Extents all(8 << 20);
  auto a = all.take(2 << 20), b = all.take(2 << 20), c = all.take(4 << 20);
  EXPECT_FALSE(all.take(4096));
  all.free(*a, 2 << 20);
  all.free(*c, 4 << 20);
  EXPECT_EQ(all.largest(), 4u << 20);
  all.free(*b, 2 << 20);
  EXPECT_EQ(all.largest(), 8u << 20);
  EXPECT_EQ(all.used(), 0u);
}

TEST(Extents, RandomUseNeverOverlaps) {
  std::mt19937 random(7);
  Extents all(16 << 20);
  std::map<std::uint64_t, std::uint64_t> taken;
  for (int i = 0; i < 20'000; ++i) {
    if (taken.empty() || random() % 2 == 0) {
      std::uint64_t size = Extents::rounded(1 + random() % (512 << 10));
      auto at = all.take(size);
      if (!at) continue;
      auto next = taken.lower_bound(*at);
      ASSERT_TRUE(next == taken.end() || *at + size <= next->first);
      ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= *at);
      ASSERT_LE(*at + size, all.capacity());
      taken[*at] = size;
    } else {
      auto at = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
      all.free(at->first, at->second);
      taken.erase(at);
    }
    std::uint64_t used = 0;
    for (auto& [offset, size] : taken) used += size;
    ASSERT_EQ(all.used(), used);
  }
}

}  // namespace
}  // namespace troupe
