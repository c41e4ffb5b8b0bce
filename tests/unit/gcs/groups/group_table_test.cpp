#include "gcs/groups/group_table.h"

#include <gtest/gtest.h>

#include <random>

namespace troupe::gcs {
namespace {

// Runs the table and keeps what it wants done, as text.
struct GroupTableTest : ::testing::Test {
  GroupTable table;
  Time now = 1000;
  RequestId next = 1;
  std::vector<ActorId> members{{1}, {2}, {3}, {4}};
  std::map<RequestId, GroupFormed> formed;
  std::map<RequestId, Error> failed;
  std::map<RequestId, GroupPosts> posted;
  std::vector<GroupBroken> broken;

  void take(GroupActions actions) {
    for (auto& action : actions) {
      if (auto* reply = std::get_if<GroupReply>(&action)) {
        EXPECT_EQ(formed.count(reply->request) + failed.count(reply->request), 0u) << "answered twice";
        if (auto* good = std::get_if<GroupFormed>(&reply->answer))
          formed[reply->request] = *good;
        else if (auto* shown = std::get_if<GroupPosts>(&reply->answer))
          posted[reply->request] = *shown;
        else
          failed[reply->request] = std::get<Error>(reply->answer);
      } else {
        broken.push_back(std::get<GroupBroken>(action));
      }
    }
  }
  GroupJoin joining(std::uint64_t actor, std::uint64_t after = 0, std::uint32_t incarnation = 1) {
    GroupJoin join;
    join.request = next++;
    join.group = 7;
    join.members = members;
    join.rank = {{actor}, incarnation, {100 + actor}, {actor % 2}};
    join.after = after;
    join.reform = after > 0;
    join.patience = 500;
    return join;
  }
  RequestId join(GroupJoin join) {
    GroupActions out;
    RequestId request = join.request;
    table.join(std::move(join), now, out);
    take(std::move(out));
    return request;
  }
  void over(std::uint64_t actor, bool final, std::uint32_t incarnation = 1) {
    GroupActions out;
    table.over({actor}, incarnation, Error(ErrorKind::actor_died, "it was killed"), final, out);
    take(std::move(out));
  }
  void pass(Time time) {
    now += time;
    GroupActions out;
    table.tick(now, out);
    take(std::move(out));
  }
};

TEST_F(GroupTableTest, FormsWhenAllHaveJoinedWithRanksByNode) {
  for (std::uint64_t actor : {1, 2, 3}) join(joining(actor));
  EXPECT_TRUE(formed.empty());
  join(joining(4));
  ASSERT_EQ(formed.size(), 4u);
  std::vector<std::uint64_t> order;
  for (const auto& rank : formed.at(1).ranks) order.push_back(rank.actor.value);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 3, 2, 4}));  // node 1, then node 0
  EXPECT_EQ(formed.at(4).generation, 1u);
  EXPECT_EQ(formed.at(2).ranks[1].process, ProcessId{103});
}

TEST_F(GroupTableTest, KeepsTheOrderOfMembersWhenAsked) {
  for (std::uint64_t actor : {4, 2, 3, 1}) {
    auto one = joining(actor);
    one.keep_order = true;
    join(one);
  }
  std::vector<std::uint64_t> order;
  for (const auto& rank : formed.at(1).ranks) order.push_back(rank.actor.value);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST_F(GroupTableTest, NamesWhoIsMissingWhenPatienceEnds) {
  join(joining(1));
  pass(100);
  join(joining(3));
  pass(399);
  EXPECT_TRUE(failed.empty());
  pass(1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed.at(1).kind, ErrorKind::deadline_exceeded);
  EXPECT_NE(failed.at(1).message.find("rank 1 (actor 0.2), rank 3 (actor 0.4) have not joined"),
            std::string::npos)
      << failed.at(1).message;
  pass(100);
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(GroupTableTest, TheFirstTimeADeadMemberEndsItForAll) {
  join(joining(1));
  join(joining(2));
  over(3, true);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed.at(2).kind, ErrorKind::actor_died);
  EXPECT_EQ(failed.at(2).actor, ActorId{3});
  EXPECT_NE(failed.at(2).message.find("rank 2"), std::string::npos) << failed.at(2).message;
}

TEST_F(GroupTableTest, AMemberThatRestartsIsWaitedFor) {
  for (std::uint64_t actor : {1, 2, 3}) join(joining(actor));
  over(4, false);
  EXPECT_TRUE(failed.empty());
  join(joining(4, 0, 2));
  EXPECT_EQ(formed.size(), 4u);
}

TEST_F(GroupTableTest, TheOthersHearOfALossOnceForEachProcessAndSurvivorsReform) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  over(3, true);
  over(3, true);
  ASSERT_EQ(broken.size(), 3u);
  EXPECT_EQ(broken[0].rank, 1u);  // of the order by node
  EXPECT_EQ(broken[0].generation, 1u);
  EXPECT_EQ(broken[0].why.actor, ActorId{3});
  for (std::uint64_t actor : {1, 2}) join(joining(actor, 1));
  EXPECT_EQ(formed.size(), 4u);
  RequestId last = join(joining(4, 1));
  ASSERT_EQ(formed.size(), 7u);
  EXPECT_EQ(formed.at(last).generation, 2u);
  EXPECT_EQ(formed.at(last).ranks.size(), 3u);
}

TEST_F(GroupTableTest, AReplacementIsPartOfTheNextGeneration) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  over(3, false);
  join(joining(3, 0, 2));
  for (std::uint64_t actor : {1, 2, 4}) join(joining(actor, 1));
  EXPECT_EQ(formed.size(), 8u);
  EXPECT_EQ(formed.rbegin()->second.generation, 2u);
  EXPECT_EQ(formed.rbegin()->second.ranks.size(), 4u);
}

TEST_F(GroupTableTest, SurvivorsAreNotKeptWaitingByOneThatDiesMeanwhile) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  over(3, true);
  for (std::uint64_t actor : {1, 2}) join(joining(actor, 1));
  over(4, true);
  EXPECT_EQ(formed.size(), 6u);
  EXPECT_EQ(formed.rbegin()->second.ranks.size(), 2u);
}

TEST_F(GroupTableTest, AJoinWhoseAnswerGotLostIsAnsweredAgain) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  RequestId again = join(joining(2));
  ASSERT_EQ(formed.count(again), 1u);
  EXPECT_EQ(formed.at(again).generation, 1u);
}

TEST_F(GroupTableTest, ARepeatedJoinReplacesTheFirst) {
  RequestId first = join(joining(1)), second = join(joining(1));
  EXPECT_EQ(failed.count(first), 1u);
  for (std::uint64_t actor : {2, 3, 4}) join(joining(actor));
  EXPECT_EQ(formed.count(second), 1u);
}

TEST_F(GroupTableTest, AnOldIncarnationDoesNotPushTheNewOneOut) {
  RequestId now = join(joining(1, 0, 2)), old = join(joining(1, 0, 1));
  EXPECT_EQ(failed.count(old), 1u);
  for (std::uint64_t actor : {2, 3, 4}) join(joining(actor));
  EXPECT_EQ(formed.count(now), 1u);
}

TEST_F(GroupTableTest, RefusesWhatMakesNoSense) {
  auto stranger = joining(9);
  auto nobody = joining(1);
  nobody.members.clear();
  auto twice = joining(1);
  twice.members = {{1}, {1}};
  RequestId a = join(stranger), b = join(nobody), c = join(twice);
  join(joining(1));
  auto other = joining(2);
  other.members = {{1}, {2}};
  RequestId d = join(other);
  for (RequestId request : {a, b, c, d}) {
    ASSERT_EQ(failed.count(request), 1u) << request;
    EXPECT_EQ(failed.at(request).kind, ErrorKind::invalid_argument);
  }
}

TEST_F(GroupTableTest, AfterARestartOfTheHeadLossesAreToldToWhoResumed) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  GroupFormed was = formed.at(1);
  table = GroupTable();
  for (int i = 0; i < 4; ++i) table.resume(7, members, was);
  over(2, true);
  EXPECT_EQ(broken.size(), 3u);
  for (std::uint64_t actor : {1, 3, 4}) join(joining(actor, 1));
  EXPECT_EQ(formed.rbegin()->second.generation, 2u);
}

TEST_F(GroupTableTest, IsForgottenWhenAllHaveLeftOrDied) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  GroupActions out;
  table.leave(7, {1}, 1, out);
  take(std::move(out));
  EXPECT_EQ(broken.size(), 3u);
  EXPECT_EQ(broken[0].why.message.find("rank 0 of the group"), 0u) << broken[0].why.message;
  GroupActions more;
  table.leave(7, {2}, 1, more);
  table.leave(7, {3}, 1, more);
  take(std::move(more));
  EXPECT_EQ(table.size(), 1u);
  over(4, true);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(GroupTableTest, RanksShowEachOtherSomething) {
  for (std::uint64_t actor : {1, 2, 3, 4}) join(joining(actor));
  auto post = [&](std::uint32_t rank, std::uint32_t board, bool partial, std::uint64_t generation = 1) {
    GroupActions out;
    ProcessId process = rank < 4 ? formed.at(1).ranks[rank].process : ProcessId{1};
    table.post({next, 7, generation, rank, process, board, "of " + std::to_string(rank), 500, partial}, now,
               out);
    take(std::move(out));
    return next++;
  };
  for (std::uint32_t rank : {2, 0, 1}) post(rank, 0, false);
  EXPECT_TRUE(posted.empty());
  RequestId last = post(3, 0, false);
  EXPECT_EQ(posted.size(), 4u);
  EXPECT_EQ(posted.at(last).by_rank.at(2), "of 2");
  EXPECT_EQ(posted.count(post(3, 0, false)), 1u);  // its answer got lost
  EXPECT_EQ(failed.count(post(9, 0, false)), 1u);
  EXPECT_EQ(failed.count(post(1, 0, false, 2)), 1u);
  EXPECT_EQ(failed.count(post(1, 99, false)), 1u);
  // Too late, or broken: an error that names ranks, or what is there.
  RequestId late = post(1, 1, false), partly = post(2, 1, true);
  pass(500);
  EXPECT_NE(failed.at(late).message.find("rank 0, rank 3 of the group"), std::string::npos);
  EXPECT_EQ(posted.at(partly).by_rank.size(), 2u);
  RequestId broke = post(1, 2, false), known = post(2, 2, true);
  over(3, true);
  EXPECT_EQ(failed.at(broke).kind, ErrorKind::actor_died);
  EXPECT_EQ(posted.at(known).by_rank.size(), 2u);
}

// Whatever happens in whatever order: each join is answered once, and nothing is left in the end.
TEST_F(GroupTableTest, EveryJoinEndsOnce) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    table = GroupTable();
    formed.clear();
    failed.clear();
    RequestId first = next;
    std::map<std::uint64_t, std::uint32_t> incarnation{{1, 1}, {2, 1}, {3, 1}, {4, 1}};
    std::set<std::uint64_t> dead;
    for (int step = 0; step < 60; ++step) {
      std::uint64_t actor = 1 + random() % 4;
      if (random() % 6 == 0) pass(static_cast<Time>(random() % 400));
      if (dead.count(actor) > 0) continue;
      if (random() % 8 == 0) {
        bool final = random() % 4 == 0;
        over(actor, final, incarnation[actor]++);
        if (final) dead.insert(actor);
      } else if (random() % 10 == 0) {
        GroupActions out;
        table.leave(7, {actor}, incarnation[actor], out);
        take(std::move(out));
      } else {
        join(joining(actor, random() % 3, incarnation[actor]));
      }
    }
    for (std::uint64_t actor = 1; actor <= 4; ++actor) over(actor, true, 1000);
    EXPECT_EQ(formed.size() + failed.size(), next - first) << "seed " << seed;
    EXPECT_EQ(table.size(), 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::gcs
