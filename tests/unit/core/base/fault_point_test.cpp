#include "core/base/fault_point.h"

#include <gtest/gtest.h>

namespace troupe {
namespace {

FaultPoint first("test.first"), second("test.second");

class FaultPointTest : public ::testing::Test {
 protected:
  ~FaultPointTest() override { (void)FaultPoints::configure("", 0); }
};

TEST_F(FaultPointTest, IsOffAndUncountedUnlessAskedFor) {
  auto before = first.reached();
  EXPECT_FALSE(first.fires());
  EXPECT_EQ(first.reached(), before);
}

TEST_F(FaultPointTest, FiresWithItsProbability) {
  ASSERT_TRUE(FaultPoints::configure("test.first=0.25", 3));
  int fired = 0;
  for (int i = 0; i < 4000; ++i) {
    fired += first.fires();
    EXPECT_FALSE(second.fires());
  }
  EXPECT_GT(fired, 800);
  EXPECT_LT(fired, 1200);
  EXPECT_EQ(first.fired(), static_cast<std::uint64_t>(fired));
}

TEST_F(FaultPointTest, FiresAsOftenAsAllowed) {
  ASSERT_TRUE(FaultPoints::configure("test.*=1*2", 3));
  EXPECT_TRUE(first.fires());
  EXPECT_TRUE(second.fires());
  EXPECT_FALSE(first.fires());
}

TEST_F(FaultPointTest, SameSeedSameDraws) {
  auto draw = [] {
    (void)FaultPoints::configure("test.second=0.5", 11);
    std::string text;
    for (int i = 0; i < 64; ++i) text += second.fires() ? '1' : '0';
    return text;
  };
  EXPECT_EQ(draw(), draw());
}

TEST_F(FaultPointTest, BadTextIsNamed) {
  for (const char* text : {"test.first", "test.first=", "test.first=2", "=1", "test.first=0.5*x"}) {
    auto done = FaultPoints::configure(text, 1);
    ASSERT_FALSE(done) << text;
    EXPECT_NE(done.error().message.find(text), std::string::npos) << done.error().message;
  }
}

TEST_F(FaultPointTest, AreListedByName) {
  std::string names;
  for (FaultPoint* point : FaultPoints::all()) names += std::string(point->name()) + " ";
  EXPECT_NE(names.find("test.first test.second "), std::string::npos) << names;
}

}  // namespace
}  // namespace troupe
