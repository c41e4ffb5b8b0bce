#include "gcs/placement/placement.h"

#include <gtest/gtest.h>

#include <random>

namespace troupe::gcs {
namespace {

Resources amounts(double cpu, double gpu = 0) {
  Resources all;
  if (cpu != 0) (void)all.set("cpu", cpu);
  if (gpu != 0) (void)all.set("gpu", gpu);
  return all;
}

class PlacementTest : public ::testing::Test {
 protected:
  std::map<std::uint64_t, std::uint64_t> settle() {  // actor → node
    Settled settled;
    placement_.settle(settled);
    std::map<std::uint64_t, std::uint64_t> all;
    for (const Grant& grant : settled.granted) all[grant.actor.value] = grant.node.value;
    EXPECT_EQ(placement_.check(), "");
    return all;
  }
  Placement placement_;
};

using Where = std::map<std::uint64_t, std::uint64_t>;

TEST_F(PlacementTest, SpreadsOverNodesAndBreaksTiesById) {
  for (std::uint64_t n : {1, 2, 3}) placement_.add_node({n}, "n" + std::to_string(n), amounts(4), true);
  for (std::uint64_t a = 1; a <= 6; ++a) placement_.wait({a}, {}, "", {});
  EXPECT_EQ(settle(), (Where{{1, 1}, {2, 2}, {3, 3}, {4, 1}, {5, 2}, {6, 3}}));
}

TEST_F(PlacementTest, TheFirstToComeIsTheFirstServed) {
  placement_.add_node({1}, "n", amounts(1), true);
  for (std::uint64_t a = 1; a <= 3; ++a) placement_.wait({a}, amounts(1), "", {});
  EXPECT_EQ(settle(), (Where{{1, 1}}));
  placement_.cancel({2});
  placement_.give_back({1}, amounts(1), {});
  EXPECT_EQ(settle(), (Where{{3, 1}}));
}

TEST_F(PlacementTest, FractionsAndWholeGpusNeverMeet) {
  NodeSlots node(amounts(0, 2));
  GpuSlots half = node.take(amounts(0, 0.5));
  EXPECT_EQ(half, GpuSlots{0});
  EXPECT_FALSE(node.fits(amounts(0, 2)));
  EXPECT_EQ(node.take(amounts(0, 1)), GpuSlots{1});
  EXPECT_FALSE(node.fits(amounts(0, 1)));
  EXPECT_EQ(node.take(amounts(0, 0.5)), GpuSlots{0});
  EXPECT_FALSE(node.fits(amounts(0, 0.0001)));
  node.give_back(amounts(0, 1), {1});
  EXPECT_EQ(node.take(amounts(0, 0.7)), GpuSlots{1});
  EXPECT_FALSE(node.fits(amounts(0, 0.5)));  // 0.3 are free
  EXPECT_EQ(node.check(), "");
}

TEST_F(PlacementTest, NothingDriftsOverAMillionFractions) {
  NodeSlots node(amounts(1, 1));
  for (int i = 0; i < 100'000; ++i) {
    GpuSlots a = node.take(amounts(0.1, 0.3));
    GpuSlots b = node.take(amounts(0.7, 0.3));
    node.give_back(amounts(0.1, 0.3), a);
    node.give_back(amounts(0.7, 0.3), b);
  }
  EXPECT_EQ(node.free(), node.total());
  EXPECT_TRUE(node.fits(amounts(1, 1)));
}

TEST_F(PlacementTest, ImpossibleRequestsAreRefused) {
  EXPECT_FALSE(check_request(amounts(0, 1.5)));
  EXPECT_TRUE(check_request(amounts(0, 3)));
  EXPECT_TRUE(check_request(amounts(0, 0.25)));
  Resources negative;
  negative.set_units("cpu", -1);
  EXPECT_FALSE(check_request(negative));
}

TEST_F(PlacementTest, AffinityAndAvoidance) {
  placement_.add_node({1}, "a", amounts(1), true);
  placement_.add_node({2}, "b", amounts(1), true);
  placement_.wait({1}, amounts(1), "b", {});
  placement_.wait({2}, amounts(0.5), "", {1});
  placement_.wait({3}, {}, "nowhere", {});
  EXPECT_EQ(settle(), (Where{{1, 2}, {2, 1}}));  // b is full: the avoided node is better than none
  EXPECT_TRUE(placement_.infeasible({3}));
  EXPECT_NE(placement_.reason({3}).find("nowhere"), std::string::npos);
  placement_.wait({4}, {}, "", {1});
  EXPECT_EQ(settle(), (Where{{4, 2}}));
}

TEST_F(PlacementTest, AnInfeasibleOneBlocksNobodyAndWaitsForItsNode) {
  placement_.wait({1}, amounts(64), "", {});
  Settled settled;
  placement_.settle(settled);
  EXPECT_TRUE(settled.judged.empty());  // no node yet: nothing is said
  placement_.add_node({1}, "n", amounts(4), true);
  placement_.wait({2}, amounts(4), "", {});
  placement_.settle(settled);
  EXPECT_EQ(settled.judged, std::vector<ActorId>{{1}});
  ASSERT_EQ(settled.granted.size(), 1u);
  EXPECT_EQ(settled.granted[0].actor, ActorId{2});
  placement_.add_node({2}, "big", amounts(64), true);
  EXPECT_EQ(settle(), (Where{{1, 2}}));
}

// A big one that fits no node now is passed by small ones, but not for ever.
TEST_F(PlacementTest, ABigOneIsNotStarvedBySmallOnes) {
  placement_.add_node({1}, "n", amounts(2), true);
  std::uint64_t next = 1;
  placement_.wait({next++}, amounts(1), "", {});
  settle();
  const ActorId big{1'000'000};
  placement_.wait(big, amounts(2), "", {});
  std::uint64_t passed = 0;
  bool served = false;
  for (int round = 0; round < 1'000 && !served; ++round) {
    placement_.wait({next++}, amounts(1), "", {});
    auto granted = settle();
    served = granted.count(big.value) != 0;
    passed += granted.size();
    placement_.give_back({1}, amounts(1), {});  // the older of the small ones ends
    auto more = settle();
    served |= more.count(big.value) != 0;
    passed += more.size() - served;
  }
  EXPECT_TRUE(served);
  EXPECT_LE(passed, Placement::kMostPasses + 2);
}

TEST_F(PlacementTest, WhatCompetesForNothingPassesAReservation) {
  placement_.add_node({1}, "n", amounts(2, 1), true);
  placement_.wait({1}, amounts(1), "", {});
  settle();
  placement_.wait({2}, amounts(2), "", {});
  for (std::uint64_t a = 10; a < 10 + Placement::kMostPasses; ++a) {
    placement_.wait({a}, amounts(1), "", {});
    ASSERT_EQ(settle().size(), 1u);
    placement_.give_back({1}, amounts(1), {});
  }
  placement_.wait({500}, amounts(1), "", {});
  placement_.wait({501}, amounts(0, 1), "", {});
  placement_.wait({502}, {}, "", {});
  EXPECT_EQ(settle(), (Where{{501, 1}, {502, 1}}));
}

TEST_F(PlacementTest, RandomHistoriesKeepTheInvariants) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    auto pick = [&](std::uint64_t n) { return random() % n; };
    Placement placement;
    std::map<std::uint64_t, Resources> wanted;
    std::vector<Grant> running;
    std::uint64_t next = 1;
    for (int i = 0; i < 300; ++i) {
      switch (pick(6)) {
        case 0:
        case 1: {  // comes, comes anew, or goes; what the node gave before is forgotten
          NodeId node{1 + pick(4)};
          std::erase_if(running, [&](const Grant& grant) { return grant.node == node; });
          placement.remove_node(node);
          if (pick(4) == 0) break;
          placement.add_node(node, "n" + std::to_string(pick(3)), amounts(double(pick(5)), double(pick(4))),
                             pick(5) != 0);
          break;
        }
        case 2:
          placement.set_open({1 + pick(4)}, pick(3) != 0);
          break;
        case 3:
        case 4: {
          wanted[next] = amounts(double(pick(7)) / 2, pick(3) == 0 ? 0.4 : double(pick(3)));
          placement.wait({next}, wanted[next], pick(6) == 0 ? "n1" : "", {pick(3)});
          ++next;
          break;
        }
        default:
          placement.cancel({1 + pick(next)});
          break;
      }
      if (!running.empty() && pick(3) == 0) {
        std::size_t at = pick(running.size());
        placement.give_back(running[at].node, wanted[running[at].actor.value], running[at].gpus);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
      }
      Settled settled;
      placement.settle(settled);
      for (Grant& grant : settled.granted) running.push_back(grant);
      ASSERT_EQ(placement.check(), "");
    }
  }
}

}  // namespace
}  // namespace troupe::gcs
