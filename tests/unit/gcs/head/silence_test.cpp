#include "gcs/head/silence.h"

#include <gtest/gtest.h>

namespace troupe::gcs {
namespace {

constexpr kj::Duration ms(std::int64_t count) { return count * kj::MILLISECONDS; }

struct SilenceTest : testing::Test {
  void beat(std::int64_t after) { silence.heard(now = now + ms(after)); }

  kj::TimePoint now = kj::origin<kj::TimePoint>();
  Silence silence{now, ms(1000)};
};

TEST_F(SilenceTest, OneOnTimeHasTheLeastPatience) {
  for (int i = 0; i < 100; ++i) beat(150);
  EXPECT_EQ(silence.patience(), ms(1000));
  EXPECT_FALSE(silence.too_long(now + ms(1000)));
  EXPECT_TRUE(silence.too_long(now + ms(1001)));
}

TEST_F(SilenceTest, OneThatIsLateIsGivenThreeTimesItsLongestPause) {
  beat(700);
  beat(150);
  EXPECT_EQ(silence.patience(), ms(3 * (700 - 15)));
  beat(2000);
  EXPECT_EQ(silence.patience(), ms(3000));  // the most
}

TEST_F(SilenceTest, ALongPauseIsForgotten) {
  beat(900);
  for (int i = 0; i < 40; ++i) beat(150);
  EXPECT_EQ(silence.patience(), ms(1000));
}

TEST_F(SilenceTest, TimeInWhichNobodyListenedDoesNotCount) {
  beat(150);
  silence.forgive(ms(60'000));
  EXPECT_FALSE(silence.too_long(now + ms(61'000)));
  beat(60'100);
  EXPECT_EQ(silence.patience(), ms(1000));
}

}  // namespace
}  // namespace troupe::gcs
