// The simulator in CI: many seeds hold, a seed is one history, and no interesting path is rare by accident.
#include <gtest/gtest.h>

#include "tests/sim/simulation.h"

namespace troupe::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSeeds = 26;  // ten times as slow, and the same histories
#else
constexpr int kSeeds = 260;
#endif

// Split so that ctest runs them side by side.
class Seeds : public ::testing::TestWithParam<int> {};

TEST_P(Seeds, Hold) {
  for (int i = 0; i < kSeeds; ++i) {
    std::uint64_t seed = static_cast<std::uint64_t>(GetParam() * kSeeds + i + 1);
    Outcome outcome = run_seed({.seed = seed});
    ASSERT_FALSE(outcome.violation) << "seed " << seed << ": " << *outcome.violation
                                    << "; for its trace: tools/sim --seeds " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, Seeds, ::testing::Range(0, 8));

TEST(Sim, SameSeedSameTrace) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Outcome one = run_seed({.seed = seed, .keep_trace = true});
    Outcome two = run_seed({.seed = seed, .keep_trace = true});
    ASSERT_EQ(one.trace, two.trace) << "seed " << seed;
    ASSERT_EQ(one.hash, two.hash) << "seed " << seed;
  }
}

TEST(Sim, OtherSeedOtherTrace) { EXPECT_NE(run_seed({.seed = 1}).hash, run_seed({.seed = 2}).hash); }

}  // namespace
}  // namespace troupe::sim
