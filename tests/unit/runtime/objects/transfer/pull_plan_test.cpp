#include "runtime/objects/transfer/pull_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace troupe {
namespace {

constexpr NodeId kHome{1};
const ObjectId kObject{7, kHome, 42};

class PullPlanTest : public ::testing::Test {
 protected:
  std::string want(std::uint64_t puller, std::uint64_t failed = 0) {
    PullPlan::Assignments out;
    plan_.want(kObject, {puller}, {failed}, out);
    return text(out);
  }
  std::string done(std::uint64_t puller, bool whole = true) {
    PullPlan::Assignments out;
    plan_.done(kObject, {puller}, whole, out);
    return text(out);
  }
  std::string gone(std::uint64_t node) {
    PullPlan::Assignments out;
    plan_.node_gone({node}, out);
    return text(out);
  }
  std::string text(const PullPlan::Assignments& out) {
    EXPECT_EQ(plan_.check(), "");
    std::string all;
    for (const auto& one : out)
      all += (all.empty() ? "" : " ") + to_string(one.puller) + "<-" + to_string(one.source);
    return all;
  }
  PullPlan plan_{kHome};
};

TEST_F(PullPlanTest, ManyPullersFormATree) {
  for (std::uint64_t node = 2; node <= 9; ++node)
    EXPECT_EQ(want(node), to_string(NodeId{node}) + "<-" + to_string(NodeId{node - 1}));
  EXPECT_EQ(want(10), "10<-1");  // rather than at the end of so long a branch
  EXPECT_EQ(want(11), "11<-10");
}

TEST_F(PullPlanTest, OneThatHasItIsASource) {
  EXPECT_EQ(want(2), "2<-1");
  EXPECT_EQ(done(2), "");
  EXPECT_EQ(want(3), "3<-1");
  EXPECT_EQ(want(4), "4<-2");
}

TEST_F(PullPlanTest, ASourceThatFailedIsAvoided) {
  want(2), done(2);
  EXPECT_EQ(want(3), "3<-1");
  EXPECT_EQ(want(4), "4<-2");
  EXPECT_EQ(want(4, 2), "4<-3");  // 2 had given its copy up
  EXPECT_EQ(want(5), "5<-4");
}

TEST_F(PullPlanTest, ALostNodesPullersAskAgain) {
  want(2), want(3), want(4), want(5);
  EXPECT_EQ(gone(2), "");
  EXPECT_EQ(want(3, 2), "3<-1");
  EXPECT_EQ(want(6), "6<-5");
}

TEST_F(PullPlanTest, NobodyReceivesFromThoseThatReceiveFromIt) {
  want(2), want(3), want(4), want(5);
  EXPECT_EQ(want(3, 2), "3<-1");  // and not from 4 or 5
}

TEST_F(PullPlanTest, WhoGivesUpIsForgotten) {
  want(2);
  EXPECT_EQ(done(2, false), "");
  EXPECT_EQ(plan_.objects(), 0u);
}

class PullPlanRandom : public ::testing::TestWithParam<int> {};

// Whatever happens, all that still want the object get it, along no circle.
TEST_P(PullPlanRandom, AllEnd) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  PullPlan plan(kHome);
  std::map<std::uint64_t, std::uint64_t> source;  // of those that receive
  std::set<std::uint64_t> wants;
  auto take = [&](const PullPlan::Assignments& out) {
    for (const auto& one : out) {
      ASSERT_TRUE(wants.count(one.puller.value));
      source[one.puller.value] = one.source.value;
    }
    ASSERT_EQ(plan.check(), "");
  };
  for (int step = 0; step < 2000; ++step) {
    PullPlan::Assignments out;
    std::uint64_t node = 2 + random() % 12;
    switch (random() % 6) {
      case 0:
      case 1:
        if (wants.insert(node).second) plan.want(kObject, {node}, {}, out);
        break;
      case 2:
        if (auto at = source.find(node); at != source.end()) {  // its source broke off
          NodeId failed{at->second};
          source.erase(at);
          plan.want(kObject, {node}, failed, out);
        }
        break;
      case 3:
        if (source.erase(node) > 0) wants.erase(node), plan.done(kObject, {node}, true, out);
        break;
      case 4:
        if (wants.erase(node) > 0) source.erase(node), plan.done(kObject, {node}, false, out);
        break;
      case 5:
        if (random() % 4 > 0) break;
        wants.erase(node), source.erase(node);
        plan.node_gone({node}, out);
        break;
    }
    take(out);
  }
  // From now on nothing fails: each source that lost its own is noticed by who receives from it.
  for (int round = 0; round < 100 && !wants.empty(); ++round) {
    for (std::uint64_t node : std::set(wants)) {
      PullPlan::Assignments out;
      auto at = source.find(node);
      bool fed = at != source.end() &&
                 (at->second == kHome.value || !wants.count(at->second) || source.count(at->second));
      if (fed && at->second == kHome.value) {
        source.erase(node), wants.erase(node);
        plan.done(kObject, {node}, true, out);
      } else if (at != source.end()) {
        NodeId failed{at->second};
        source.erase(at);
        plan.want(kObject, {node}, failed, out);
      }
      take(out);
    }
  }
  EXPECT_TRUE(wants.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, PullPlanRandom, ::testing::Range(0, 20));

}  // namespace
}  // namespace troupe
