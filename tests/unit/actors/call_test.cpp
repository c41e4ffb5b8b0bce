// Calls between lanes over rings, TCP and within the process, against a directory that says what the test
// wants.
#include <gtest/gtest.h>

#include "tests/unit/actors/zoo.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

class CallTest : public ::testing::TestWithParam<Join> {
 protected:
  void SetUp() override { board.reset(); }
  World::Options options(int workers = 1, bool hand_off = false) {
    World::Options out;
    out.join = GetParam();
    out.workers = workers;
    out.hand_off = hand_off;
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, CallTest, ::testing::Values(Join::ring, Join::tcp, Join::local),
                         [](const auto& info) {
                           return info.param == Join::ring  ? "Ring"
                                  : info.param == Join::tcp ? "Tcp"
                                                            : "Local";
                         });

TEST_P(CallTest, ValuesOfManyKinds) {
  World world(options());
  OpenAtEnd open_at_end;
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  EXPECT_EQ((zoo.call<&Zoo::add>(3).get()), 3);
  EXPECT_EQ((zoo.call<&Zoo::sum>().get()), 3);
  EXPECT_EQ((zoo.call<&Zoo::move_point>(Point{1, 2.5, "p"}).get()), (Point{2, 5, "p!"}));
  std::vector<std::unique_ptr<int>> more;
  more.push_back(std::make_unique<int>(4));
  more.push_back(std::make_unique<int>(2));
  EXPECT_EQ(*(zoo.call<&Zoo::move_only>(std::make_unique<std::string>("n"), std::move(more)).get()), "n42");
  EXPECT_EQ((zoo.call<overload<int(int)>(&Zoo::over)>(5).get()), 5);
  EXPECT_EQ((zoo.call<overload<std::string(const std::string&) const>(&Zoo::over)>("ab").get()), "abab");
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
  EXPECT_EQ((zoo.call<&Zoo::years>().get()), 7);
  EXPECT_EQ((zoo.call<&Zoo::big>(3u << 20).get().size()), 3u << 20);
  EXPECT_EQ((zoo.call<&Zoo::size_of>(std::string(5u << 20, 'y')).get()), 5u << 20);
}

TEST_P(CallTest, OneHandlesCallsRunInOrder) {
  World world(options());
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>();
  world.forget(id);  // the first ones wait for the directory
  Caller<Zoo> zoo(world.driver(), id);
  std::vector<Future<void>> futures;
  for (int i = 0; i < 3000; ++i) {
    if (i == 1000) world.tell(world.news_of(id, 1, Phase::alive, "Zoo", 0));
    futures.push_back(zoo.call<&Zoo::note>(i));
  }
  when_all(std::move(futures)).get();
  auto log = board.get(&Board::log);
  ASSERT_EQ(log.size(), 3000u);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(log[static_cast<std::size_t>(i)], i);
}

TEST_P(CallTest, ManyOutstanding) {
  World world(options());
  OpenAtEnd open_at_end;
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  std::vector<Future<int>> futures;
  for (int i = 0; i < 50'000; ++i) futures.push_back(zoo.call<&Zoo::add>(1));
  for (int i = 0; i < 50'000; ++i) ASSERT_EQ(futures[static_cast<std::size_t>(i)].get(), i + 1);
}

TEST_P(CallTest, ThenAndCombinations) {
  World world(options(2));
  OpenAtEnd open_at_end;
  Caller<Zoo> a(world.driver(), world.spawn<Zoo>(0)), b(world.driver(), world.spawn<Zoo>(1));
  EXPECT_EQ((a.call<&Zoo::add>(1)
                 .then([](int x) { return x + 1; })
                 .then([](int x) { return std::to_string(x); })
                 .get()),
            "2");
  EXPECT_EQ((a.call<&Zoo::add>(1).then([&](int x) { return b.call<&Zoo::add>(x); }).get()), 2);
  Error thrown = failure(a.call<&Zoo::add>(1).then([](int) -> int { throw TooBig("in then"); }));
  EXPECT_EQ(thrown.message, "in then");
  auto both = when_all(a.call<overload<int(int)>(&Zoo::over)>(1), b.call<&Zoo::legs>()).get();
  EXPECT_EQ(both, std::make_tuple(1, 4));
  std::vector<Future<int>> race;
  race.push_back(a.call<&Zoo::block>(1));
  race.push_back(b.call<&Zoo::legs>());
  auto first = when_any(std::move(race)).get();
  EXPECT_EQ(first.index, 1u);
  board.set([] { ++board.passes; });
  std::vector<Future<int>> mixed;
  mixed.push_back(a.call<&Zoo::legs>());
  mixed.push_back(b.call<&Zoo::fail>("one of two"));
  EXPECT_EQ(failure(when_all(std::move(mixed))).message, "one of two");
}

TEST_P(CallTest, MethodsThatAnswerLater) {
  World world(options(2));
  OpenAtEnd open_at_end;
  ActorId a = world.spawn<Zoo>(0), b = world.spawn<Zoo>(1), c = world.spawn<Zoo>(0);
  Caller<Zoo> zoo(world.driver(), a);
  EXPECT_EQ((zoo.call<&Zoo::pass_on>(b.value, 9).get()), 9);
  EXPECT_EQ((zoo.call<&Zoo::ask_softly>(std::vector{b.value, c.value}).get()), 3);
  EXPECT_EQ((zoo.call<&Zoo::sum_of_all>(std::vector{b.value, c.value}).get()), 10 + 1);
  EXPECT_EQ((zoo.call<&Zoo::ask>(std::vector{b.value}).get()), 2);
}

TEST_P(CallTest, LightActorsThatBlockLendTheirLane) {
  World world(options(2, true));
  OpenAtEnd open_at_end;
  std::vector<ActorId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(world.spawn<Zoo>(i % 2));
  for (int round = 0; round < 100; ++round) {
    std::vector<Future<int>> futures;
    for (std::size_t i = 0; i + 3 < ids.size(); i += 4) {
      std::vector<std::uint64_t> chain = {ids[i + 1].value, ids[i + 2].value, ids[i + 3].value};
      futures.push_back(Caller<Zoo>(world.driver(), ids[i]).call<&Zoo::ask>(chain));
    }
    for (auto& future : futures) ASSERT_EQ(future.get(), 4);
  }
}

TEST_P(CallTest, ACycleIsReportedWithItsChain) {
  for (bool hand_off : {false, true}) {
    World world(options(2, hand_off));
    OpenAtEnd open_at_end;
    ActorId a = world.spawn<Zoo>(0), b = world.spawn<Zoo>(1);
    Error hard = failure(Caller<Zoo>(world.driver(), a).call<&Zoo::ask>(std::vector{b.value, a.value}));
    Error soft =
        failure(Caller<Zoo>(world.driver(), a).call<&Zoo::ask_softly>(std::vector{b.value, a.value}));
    for (const Error* error : {&hard, &soft}) {
      const Error* root = error;
      while (root->cause) root = root->cause.get();
      EXPECT_EQ(root->kind, ErrorKind::cycle) << error->describe();
      EXPECT_NE(error->describe().find(to_string(a) + " -> " + to_string(b) + " -> " + to_string(a)),
                std::string::npos)
          << error->describe();
    }
  }
}

TEST_P(CallTest, ConcurrentClassesInterleave) {
  World world(options(2));
  OpenAtEnd open_at_end;
  ActorId helper = world.spawn<Zoo>(1);
  Caller<Meeting> meeting(world.driver(), world.spawn<Meeting>(0));
  auto first = meeting.call<&Meeting::meet>(helper.value, 1);
  EXPECT_GE((meeting.call<&Meeting::present>().get()), 1);
  board.set([] { ++board.passes; });
  EXPECT_EQ(first.get(), 1);
}

TEST_P(CallTest, ExceptionsKeepTypeMessageAndBacktrace) {
  World world(options());
  OpenAtEnd open_at_end;
  ActorId id = world.spawn<Zoo>();
  Caller<Zoo> zoo(world.driver(), id);
  Error error = failure(zoo.call<&Zoo::fail>("too big by far"));
  EXPECT_EQ(error.kind, ErrorKind::actor_error);
  EXPECT_EQ(error.message, "too big by far");
  EXPECT_EQ(error.type, "troupe::test::TooBig");
  EXPECT_EQ(error.actor, id);
  EXPECT_EQ(error.incarnation, 1u);
  EXPECT_FALSE(error.backtrace.empty());
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
}

TEST_P(CallTest, DeadlinesEndWaitingAndQueuedCalls) {
  World world(options());
  OpenAtEnd open_at_end;
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  auto running = zoo.call_with<&Zoo::block>(deadline(30ms), 1);
  auto queued = zoo.call_with<&Zoo::add>(deadline(10ms), 1);
  EXPECT_EQ(failure(std::move(queued)).kind, ErrorKind::deadline_exceeded);
  EXPECT_EQ(failure(std::move(running)).kind, ErrorKind::deadline_exceeded);
  board.set([] { ++board.passes; });
  EXPECT_EQ((zoo.call<&Zoo::sum>().get()), 0) << "the queued call ran although its deadline had passed";
  // The method itself sees that its time is over.
  auto spinning = zoo.call_with<&Zoo::until_cancelled>(deadline(5ms));
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
  EXPECT_TRUE(board.get(&Board::saw_cancel));
}

TEST_P(CallTest, CancelRunningAndQueued) {
  World world(options());
  OpenAtEnd open_at_end;
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  auto running = zoo.call<&Zoo::block>(1);
  board.await([] { return board.arrived > 0; });
  auto queued = zoo.call<&Zoo::add>(5);
  queued.cancel();
  EXPECT_EQ(failure(std::move(queued)).kind, ErrorKind::cancelled);
  board.set([] { ++board.passes; });
  EXPECT_EQ(running.get(), 1);
  if (GetParam() != Join::local) {
    EXPECT_EQ((zoo.call<&Zoo::sum>().get()), 0) << "a cancelled call ran";
  }
}

// A suspended method learns of it when it goes on.
TEST_P(CallTest, CancelASuspendedMethod) {
  World world(options(2));
  OpenAtEnd open_at_end;
  ActorId helper = world.spawn<Zoo>(1);
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>(0)), other(world.driver(), world.spawn<Zoo>(0));
  EXPECT_EQ((other.call<&Zoo::legs>().get()), 4);
  auto suspended = zoo.call<&Zoo::wait_and_see>(helper.value);
  board.await([] { return board.arrived > 0; });
  suspended.cancel();
  EXPECT_EQ(failure(std::move(suspended)).kind, ErrorKind::cancelled);
  // The answer of another actor on the same link comes from behind the cancellation.
  EXPECT_EQ((other.call<&Zoo::legs>().get()), 4);
  board.set([] { ++board.passes; });
  board.await([] { return board.ended > 0; });
  EXPECT_TRUE(board.get(&Board::saw_cancel));
}

}  // namespace
}  // namespace troupe::test
