// What calls come to when links break, actors end and come back, or were never there.
#include <gtest/gtest.h>

#include "tests/unit/actors/zoo.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
const ClassTable& kZoo = detail::TableOf<Zoo>::table;

class RouteTest : public ::testing::TestWithParam<Join> {
 protected:
  void SetUp() override { board.reset(); }
  World::Options options(int workers = 1) {
    World::Options out;
    out.join = GetParam();
    out.workers = workers;
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, RouteTest, ::testing::Values(Join::ring, Join::tcp),
                         [](const auto& info) { return info.param == Join::ring ? "Ring" : "Tcp"; });

TEST_P(RouteTest, RetriesGoToTheNextIncarnationInOrder) {
  World world(options(2));
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), id);
  auto once = zoo.call<&Zoo::block>(0);
  std::vector<Future<void>> again;
  for (int i = 0; i < 20; ++i) again.push_back(zoo.call_with<&Zoo::note>(retries(1), i));
  board.await([] { return board.arrived > 0; });
  world.forget(id);
  int before = world.questions;
  world.cut(0);
  while (world.questions == before) std::this_thread::yield();
  // Made while nobody knows where the actor is.
  Future<void> later = zoo.call<&Zoo::note>(20);
  world.place(id, 2, kZoo, 1);
  Error lost = failure(std::move(once));
  EXPECT_EQ(lost.kind, ErrorKind::actor_died) << lost.describe();
  for (auto& future : again) future.get();
  later.get();
  std::vector<int> expected;
  for (int i = 0; i <= 20; ++i) expected.push_back(i);
  // The first incarnation blocks still, and has run none of them.
  EXPECT_EQ(board.get(&Board::log), expected);
  board.set([] { ++board.passes; });
}

TEST_P(RouteTest, RetriesAreCounted) {
  World world(options());
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), id);
  auto twice = zoo.call_with<&Zoo::block>(retries(1), 3);
  board.await([] { return board.arrived == 1; });
  for (std::uint32_t incarnation = 2; incarnation <= 3; ++incarnation) {
    world.forget(id);
    int before = world.questions;
    world.cut(0);
    while (world.questions == before) std::this_thread::yield();
    board.set([] { ++board.passes; });
    world.end(id, false);
    world.place(id, incarnation, kZoo, 0);
    if (incarnation == 2) board.await([] { return board.arrived == 2; });
  }
  EXPECT_EQ(failure(std::move(twice)).kind, ErrorKind::actor_died);
  EXPECT_EQ(board.get(&Board::arrived), 2);
}

TEST_P(RouteTest, CallsAtTheMomentOfALossAllEnd) {
  World world(options(2));
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), id);
  for (std::uint32_t incarnation = 2; incarnation < 30; ++incarnation) {
    std::vector<Future<int>> plain, again;
    for (int i = 0; i < 50; ++i) {
      if (i == 20) world.cut(incarnation % 2);
      plain.push_back(zoo.call<&Zoo::legs>());
      again.push_back(zoo.call_with<&Zoo::legs>(retries(3)));
    }
    world.end(id, false);
    world.place(id, incarnation, kZoo, (incarnation + 1) % 2);
    // A link that was cut a round before may be noticed only now, when the actor lives behind it again.
    auto value_of = [&](Future<int>& future) {
      while (!future.wait_for(2s)) world.verdict();
      return future.get();
    };
    for (auto& future : again) ASSERT_EQ(value_of(future), 4);
    for (auto& future : plain) {
      try {
        ASSERT_EQ(value_of(future), 4);
      } catch (const ActorDied&) {
      } catch (const Unavailable&) {
      }
    }
  }
}

// They come back one by one, and the next incarnation may be known before the last of them.
TEST_P(RouteTest, CallsThatComeBackKeepTheirOrder) {
  World world(options(3));
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0), helper = world.spawn<Zoo>(2);
  Caller<Zoo> zoo(world.driver(), id);
  auto running = zoo.call<&Zoo::wait_and_see>(helper.value);
  board.await([] { return board.arrived > 0; });
  std::vector<Future<void>> behind;
  for (int i = 0; i < 10; ++i) behind.push_back(zoo.call_with<&Zoo::note>(retries(1), i));
  world.place(id, 2, kZoo, 1);
  // The first word that the incarnation is not there.
  World::on(world.driver(), [&] {
    world.driver().routes().gone(id, 1, Ref<CallState>(), Error(ErrorKind::actor_died, "it ended"));
  });
  zoo.call<&Zoo::note>(10).get();
  World::on(world.worker(0), [&] {
    auto at = world.worker(0).actors().find(id);
    ActorCell* cell = at->second;
    world.worker(0).actors().erase(at);
    cell->end(Error(ErrorKind::actor_died, "it ended"));
    cell->release();
  });
  for (auto& future : behind) future.get();
  std::vector<int> expected;
  for (int i = 0; i <= 10; ++i) expected.push_back(i);
  EXPECT_EQ(board.get(&Board::log), expected);
}

// Whose failure no call tells is its owner's matter (supervisor.h).
TEST_P(RouteTest, ADeathIsObservedByCallersThatStillWait) {
  for (bool given_up : {true, false}) {
    World world(options());
    OpenAtEnd open_at_end;
    board.reset();
    ActorId id = world.spawn<Zoo>(0);
    Caller<Zoo> zoo(world.driver(), id);
    auto running = zoo.call<&Zoo::block>(1);
    board.await([] { return board.arrived > 0; });
    world.forget(id);
    int before = world.questions;
    world.cut(0);
    while (world.questions == before) std::this_thread::yield();
    if (given_up) {
      running.cancel();
      EXPECT_EQ(failure(std::move(running)).kind, ErrorKind::cancelled);
    }
    ActorNews news = world.news_of(id, 1, Phase::dead, kZoo.name, 0);
    news.failure = std::make_shared<const Error>(Error(ErrorKind::actor_died, "it crashed"));
    world.tell(std::move(news));
    if (!given_up) {
      EXPECT_EQ(failure(std::move(running)).kind, ErrorKind::actor_died);
    }
    World::on(world.driver(), [] {});
    EXPECT_EQ(world.observations, given_up ? 0 : 1);
    board.set([] { ++board.passes; });
  }
}

TEST_P(RouteTest, OnlyTheLinkBroke) {
  World world(options());
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), id);
  auto running = zoo.call<&Zoo::block>(1);
  board.await([] { return board.arrived > 0; });
  int before = world.questions;
  world.cut(0);
  while (world.questions == before) std::this_thread::yield();
  // The head says nothing of an end in its time.
  world.driver().post_function([&world, id] {
    world.driver().routes().learn_failed(id, Error(ErrorKind::deadline_exceeded, "no news"));
  });
  EXPECT_EQ(failure(std::move(running)).kind, ErrorKind::unavailable);
  board.set([] { ++board.passes; });
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
}

TEST_P(RouteTest, ALinkToANodeThatWasLostMeanwhileIsNotUsed) {
  World world(options(2));
  ActorId id = world.spawn<Zoo>(0);
  world.refuse_connect = [&world]() -> Result<void> {
    if (world.connects == 1) world.driver().routes().node_lost(NodeId());  // on the driver's lane
    return {};
  };
  Caller<Zoo> zoo(world.driver(), id);
  auto legs = zoo.call<&Zoo::legs>();
  while (world.connects == 0) std::this_thread::yield();
  world.place(id, 2, kZoo, 1);
  EXPECT_EQ(legs.get(), 4);
  EXPECT_EQ(world.connects, 2);
}

TEST_P(RouteTest, AnIncarnationThatEndsWhileItsLinkIsMadeIsNotCalled) {
  World world(options(2));
  ActorId id = world.spawn<Zoo>(0);
  world.refuse_connect = [&world, id]() -> Result<void> {
    if (world.connects > 1) return {};
    // On the driver's lane, before the link is there.
    world.driver().post_function([&world, id] { world.driver().routes().incarnation_over(id, 1); });
    return {};
  };
  Caller<Zoo> zoo(world.driver(), id);
  auto legs = zoo.call<&Zoo::legs>();
  while (world.connects == 0) std::this_thread::yield();
  world.place(id, 2, kZoo, 1);
  EXPECT_EQ(legs.get(), 4);
  EXPECT_EQ(world.connects, 2);
}

TEST_P(RouteTest, TheDeadTellWhy) {
  World world(options());
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), id);
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
  world.end(id);
  Error first = failure(zoo.call<&Zoo::legs>());   // refused there
  Error second = failure(zoo.call<&Zoo::legs>());  // known here
  for (const Error& error : {first, second}) EXPECT_EQ(error.kind, ErrorKind::actor_died) << error.describe();
  ASSERT_TRUE(second.cause) << second.describe();
  EXPECT_EQ(second.cause->message, "it was killed");
  zoo.tell<&Zoo::note>(1);
}

TEST_P(RouteTest, InfeasibleActors) {
  World world(options());
  OpenAtEnd open_at_end;
  ActorId id = actor_of({7}, 99);
  ActorNews news;
  news.actor = id;
  news.infeasible = true;
  news.failure = std::make_shared<const Error>(Error(ErrorKind::infeasible, "no node has 9 gpus"));
  world.tell(news);
  Caller<Zoo> zoo(world.driver(), id);
  for (int i = 0; i < 2; ++i) {
    Error error = failure(zoo.call<&Zoo::legs>());
    EXPECT_EQ(error.kind, ErrorKind::infeasible);
    EXPECT_EQ(error.message, "no node has 9 gpus");
  }
  // A node that can hold it joins.
  world.place(id, 1, kZoo, 0);
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
}

TEST_P(RouteTest, ConnectsThatFailAreRepeatedAFewTimes) {
  World world(options(2));
  std::atomic<int> left{RouteTable::kConnectTries - 1};
  world.refuse_connect = [&]() -> Result<void> {
    if (left-- > 0) return Error(ErrorKind::unavailable, "refused");
    return {};
  };
  // After each refusal the lane asks for news; the head has none in its time, and names the same incarnation
  // again.
  auto until_done = [&](Caller<Zoo>& zoo, ActorId id) {
    auto call = zoo.call<&Zoo::legs>();
    while (!call.wait_for(1ms)) {
      world.driver().post_function([&world, id] {
        world.driver().routes().learn_failed(id, Error(ErrorKind::deadline_exceeded, "no news"));
      });
    }
    return call;
  };
  ActorId id = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), id);
  EXPECT_EQ(until_done(zoo, id).get(), 4);
  left = 1'000'000;
  world.connects = 0;
  ActorId other = world.spawn<Zoo>(1);
  Caller<Zoo> never(world.driver(), other);
  EXPECT_EQ(failure(until_done(never, other)).kind, ErrorKind::unavailable);
  EXPECT_EQ(world.connects, RouteTable::kConnectTries);
}

TEST_P(RouteTest, MismatchIsNotRepeated) {
  World world(options());
  OpenAtEnd open_at_end;
  world.refuse_connect = []() -> Result<void> { return Error(ErrorKind::mismatch, "another executable"); };
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>(0));
  EXPECT_EQ(failure(zoo.call<&Zoo::legs>()).kind, ErrorKind::mismatch);
  EXPECT_EQ(world.connects, 1);
}

// The directory says the actor is on a lane of this process, but it has just ended there.
// Nothing holds the arguments of calls that have ended.
TEST_P(RouteTest, CallsThatEndWhileTheyWaitAreForgotten) {
  World world(options());
  ActorId id = world.spawn<Zoo>();
  world.forget(id);
  Caller<Zoo> zoo(world.driver(), id);
  auto waits = [&] {
    std::size_t count = 0;
    World::on(world.driver(), [&] { count = world.driver().routes().of(id).waiting.size(); });
    return count;
  };
  auto kept = zoo.call<&Zoo::add>(1);
  auto late = zoo.call_with<&Zoo::size_of>(deadline(10ms), std::string(1000, 'x'));
  auto dropped = zoo.call<&Zoo::size_of>(std::string(1000, 'x'));
  EXPECT_EQ(waits(), 3u);
  dropped.cancel();
  EXPECT_EQ(failure(std::move(late)).kind, ErrorKind::deadline_exceeded);
  EXPECT_EQ(failure(std::move(dropped)).kind, ErrorKind::cancelled);
  EXPECT_EQ(waits(), 1u);
  world.place(id, 2, kZoo, 0);
  EXPECT_EQ(kept.get(), 1);
}

// Caller and actor share a lane: nothing travels, and the loss is seen inside of the call.
TEST(LocalRouteTest, RetriesOnTheSameLaneGoToTheNextIncarnation) {
  board.reset();
  World::Options options;
  options.join = Join::local;
  World world(options);
  Lane& lane = world.worker();
  ActorId id = world.spawn<Zoo>();
  Caller<Zoo> zoo(lane, id);
  auto call = [&](int x) {
    std::optional<Future<int>> made;
    World::on(lane, [&] { made = zoo.call_with<&Zoo::add>(retries(1), x); });
    return std::move(*made);
  };
  EXPECT_EQ(call(1).get(), 1);
  for (std::uint32_t incarnation = 2; incarnation < 5; ++incarnation) {
    world.forget(id);
    world.end(id, false);
    auto first = call(2), second = call(3);
    world.place(id, incarnation, kZoo, 0);
    EXPECT_EQ(first.get(), 2);
    EXPECT_EQ(second.get(), 5);
  }
}

TEST(LocalRouteTest, GoneWhileItsHandleIsDropped) {
  board.reset();
  World::Options options;
  options.join = Join::local;
  World world(options);
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>(0);
  world.end(id, false);
  world.forget(id);
  World::on(world.driver(), [] {});
  std::vector<Future<int>> futures;
  {
    Caller<Zoo> zoo(world.driver(), id);
    for (int i = 0; i < 10; ++i) futures.push_back(zoo.call<&Zoo::legs>());
  }
  World::on(world.driver(), [&] { world.driver().routes().drop_handle(id); });
  ActorNews news = world.news_of(id, 1, Phase::alive, "Zoo", 0);
  auto nowhere = std::make_shared<Place>(*news.place);
  nowhere->lane = 0;  // the caller's own: what is not there is told at once
  news.place = nowhere;
  world.tell(news);
  // The first finds it gone; the others then wait for news, which is its death.
  EXPECT_EQ(failure(std::move(futures[0])).kind, ErrorKind::actor_died);
  news.phase = Phase::dead;
  world.tell(news);
  for (std::size_t i = 1; i < futures.size(); ++i) {
    EXPECT_EQ(failure(std::move(futures[i])).kind, ErrorKind::actor_died);
  }
}

}  // namespace
}  // namespace troupe::test
