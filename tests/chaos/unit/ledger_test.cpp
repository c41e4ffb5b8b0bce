// The judge of tools/chaos is judged: each thing that must not be is put into the files and must be found.
#include "tests/chaos/ledger.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace chaos {
namespace {

constexpr std::uint32_t kCaller = 7;

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() {
    char name[] = "/tmp/troupe-ledger-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~LedgerTest() override { std::filesystem::remove_all(folder_); }
  void ran(std::uint32_t incarnation, std::uint64_t number, std::uint32_t via = 0) {
    Record record{kCaller, via, number};
    std::ofstream(folder_ + "/a." + std::to_string(incarnation), std::ios::app | std::ios::binary)
        .write(reinterpret_cast<const char*>(&record), sizeof record);
  }
  // Four calls, of which the first two were answered by incarnation 1, the last by 2, and the third failed.
  Sums judge(bool retries = false) {
    Ledger ledger(retries);
    for (int i = 0; i < 4; ++i) ledger.make();
    ledger.acknowledge(0, 1, 5);
    ledger.acknowledge(1, 1, 5);
    ledger.fail(2, 5, 5);
    ledger.acknowledge(3, 2, 5);
    ledger.check(folder_ + "/a", kCaller, 0, 4);
    return ledger.sums();
  }

  std::string folder_;
};

TEST_F(LedgerTest, WhatAgreesIsGood) {
  ran(1, 0), ran(1, 1), ran(2, 3);
  EXPECT_TRUE(judge().good());
  ran(2, 5);  // of another target
  EXPECT_TRUE(judge().good());
}

TEST_F(LedgerTest, AnAcknowledgedCallThatDidNotRunIsLost) {
  ran(1, 0), ran(1, 1);
  EXPECT_EQ(judge().lost, 1u);
  ran(1, 3);  // elsewhere than its answer says
  EXPECT_EQ(judge().lost, 1u);
}

TEST_F(LedgerTest, WithoutRepeatsACallRunsOnce) {
  ran(1, 0), ran(1, 1), ran(1, 2), ran(2, 2), ran(2, 3);
  EXPECT_EQ(judge().twice, 1u);
  EXPECT_EQ(judge(true).twice, 0u);
  ran(2, 3);
  EXPECT_EQ(judge(true).twice, 1u);
}

TEST_F(LedgerTest, OrderIsKept) {
  ran(1, 1), ran(1, 0), ran(2, 3);
  EXPECT_EQ(judge().disorder, 1u);
  EXPECT_EQ(judge(true).disorder, 1u);
}

TEST_F(LedgerTest, OrderIsThatOfOneRelay) {
  ran(1, 1, 2), ran(1, 0, 1), ran(2, 3, 2);
  EXPECT_TRUE(judge().good());
}

TEST_F(LedgerTest, OrderReachesOverIncarnationsWithoutRepeats) {
  ran(1, 0), ran(1, 1), ran(1, 3), ran(2, 2);
  EXPECT_EQ(judge().disorder, 1u);
  EXPECT_EQ(judge(true).disorder, 0u);
}

TEST_F(LedgerTest, AnIncarnationThatBeginsTwiceIsTold) {
  ran(1, 0), ran(1, 1), ran(2, 3);
  std::ofstream(folder_ + "/a.2.again").put('x');
  EXPECT_EQ(judge().again, 1u);
}

}  // namespace
}  // namespace chaos
