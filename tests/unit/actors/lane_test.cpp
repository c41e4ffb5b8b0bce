// Sleeping and waking of lanes: no wake-up may be lost, whoever drives.
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <thread>

#include "tests/unit/actors/world.h"

namespace troupe::test {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int passes = 0, arrived = 0;
  void pass() {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    changed.wait(lock, [&] { return passes > 0; });
    --passes;
  }
  void open(int n = 1) {
    std::lock_guard lock(mutex);
    passes += n;
    changed.notify_all();
  }
  int arrivals() {
    std::lock_guard lock(mutex);
    return arrived;
  }
  void await_arrivals(int n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return arrived >= n; });
  }
};
Gate gate;

struct Sleeper {
  int quick(int x) { return x; }
  int slow(int x) {
    gate.pass();
    return x;
  }
};

}  // namespace
}  // namespace troupe::test

template <>
inline constexpr auto troupe::actor<troupe::test::Sleeper> =
    troupe::describe<troupe::test::Sleeper>("Sleeper")
        .methods<&troupe::test::Sleeper::quick, &troupe::test::Sleeper::slow>();

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

class LaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::lock_guard lock(gate.mutex);
    gate.passes = gate.arrived = 0;
  }
};

// A state that the test finishes on a lane, as answers of the control plane do.
Ref<detail::FutureState<int>> pending(Lane& lane) {
  return Ref<detail::FutureState<int>>::adopt(new detail::FutureState<int>(lane));
}
void finish(const Ref<detail::FutureState<int>>& state, int value) {
  state->lane().post_function([state, value] {
    state->value = value;
    state->finish_value();
  });
}

TEST_F(LaneTest, StopsWithNothingOnIt) {
  for (int i = 0; i < 200; ++i) {
    World world;
  }
}

// The background thread wakes now and then while a thread drives; then its ring must reach the driver, not
// itself.
TEST_F(LaneTest, SlowCallsAmongQuickOnesWakeTheDriver) {
  World::Options options;
  options.poll = 0us;
  World world(options);
  Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 10; ++i) ASSERT_EQ((actor.call<&Sleeper::quick>(i).get()), i);
    int before = gate.arrivals();
    auto slow = actor.call<&Sleeper::slow>(round);
    std::thread opener([before] {
      gate.await_arrivals(before + 1);
      std::this_thread::sleep_for(
          3ms);  // lets the driver and the background thread fall asleep, in either order
      gate.open();
    });
    ASSERT_EQ(slow.get(), round);
    opener.join();
  }
}

TEST_F(LaneTest, AnswersFromOtherThreadsWakeTheDriver) {
  World::Options options;
  options.poll = 0us;
  World world(options);
  Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
  for (int round = 0; round < 200; ++round) {
    auto state = pending(world.driver());
    std::thread other([&] {
      finish(state, round);
      // Calls made meanwhile enter the lane and run what was posted.
      actor.tell<&Sleeper::quick>(1);
    });
    ASSERT_EQ(Future<int>(state).get(), round);
    other.join();
  }
}

TEST_F(LaneTest, ManyThreadsWaitAtOnce) {
  for (auto poll : {0us, 50us}) {
    World::Options options;
    options.poll = poll;
    World world(options);
    ActorId id = world.spawn<Sleeper>();
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        Caller<Sleeper> actor(world.driver(), id);
        for (int i = 0; i < 500; ++i)
          ASSERT_EQ((actor.call<&Sleeper::quick>(t * 1000 + i).get()), t * 1000 + i);
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

// Nobody waits in get(): the background thread alone must fire the deadline, also after a thread slept with a
// limit of its own that is earlier.
TEST_F(LaneTest, DeadlinesFireWithoutADriver) {
  World world;
  Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
  auto first = actor.call<&Sleeper::slow>(1);
  EXPECT_FALSE(first.wait_for(20ms));
  for (auto time : {30ms, 60ms}) {
    std::promise<ErrorKind> ended;
    auto late = actor.call_with<&Sleeper::quick>(deadline(time), 2);
    detail::when_done(late.release(),
                      [&](detail::FutureState<int>& state) { ended.set_value(state.error().kind); });
    auto future = ended.get_future();
    ASSERT_EQ(future.wait_for(30s), std::future_status::ready) << "nobody woke for the deadline";
    EXPECT_EQ(future.get(), ErrorKind::deadline_exceeded);
  }
  gate.open();
  EXPECT_EQ(first.get(), 1);
}

TEST_F(LaneTest, ContinuationsRunWithoutADriver) {
  World world;
  Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
  for (int i = 0; i < 100; ++i) {
    std::promise<int> got;
    auto future = actor.call<&Sleeper::quick>(i).then([&](int x) { got.set_value(x); });
    auto done = got.get_future();
    ASSERT_EQ(done.wait_for(30s), std::future_status::ready) << "round " << i;
    ASSERT_EQ(done.get(), i);
    future.get();
  }
}

TEST_F(LaneTest, AWaitThatRunsOutMayBeRepeated) {
  World world;
  Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
  auto slow = actor.call<&Sleeper::slow>(5);
  EXPECT_FALSE(slow.wait_for(1ms));
  EXPECT_THROW(slow.get(1ms), DeadlineExceeded);
  gate.open();
  EXPECT_EQ(slow.get(), 5);
}

TEST_F(LaneTest, TheLongestTimeIsNotAtOnce) {
  World world;
  Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
  auto opener = std::async(std::launch::async, [] {
    gate.await_arrivals(1);
    gate.open();
  });
  auto call = actor.call_with<&Sleeper::slow>(deadline(std::chrono::nanoseconds::max()), 3);
  EXPECT_EQ(call.get(std::chrono::nanoseconds::max()), 3);
  auto late = actor.call<&Sleeper::slow>(4);
  EXPECT_FALSE(late.wait_for(std::chrono::nanoseconds::min()));
  gate.open();
}

TEST_F(LaneTest, StopsWithCallsInFlight) {
  for (int round = 0; round < 1000; ++round) {
    World::Options options;
    options.join = round % 3 == 0 ? Join::tcp : round % 3 == 1 ? Join::ring : Join::local;
    World world(options);
    Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
    std::vector<Future<int>> futures;
    for (int i = 0; i < 100; ++i) futures.push_back(actor.call<&Sleeper::quick>(i));
    world.driver().stop("the program ends");
    for (int i = 0; i < 100; ++i) {
      // Between lanes of one process only the callee knows of a call: get() ends it.
      if (options.join != Join::local) {
        ASSERT_TRUE(futures[static_cast<std::size_t>(i)].ready()) << "call " << i << " of round " << round;
      }
      try {
        ASSERT_EQ(futures[static_cast<std::size_t>(i)].get(), i);
      } catch (const Cancelled&) {
      }
    }
  }
}

// What hangs on calls in flight ends with them.
TEST_F(LaneTest, StopEndsContinuationsToo) {
  World world;
  ActorId id = world.spawn<Sleeper>();
  world.forget(id);
  Caller<Sleeper> actor(world.driver(), id);
  std::vector<Future<int>> futures;
  for (int i = 0; i < 1000; ++i) {
    futures.push_back(
        actor.call<&Sleeper::quick>(i).then([](int x) { return x; }).then([](int x) { return x; }));
  }
  world.driver().stop("the program ends");
  for (auto& future : futures) {
    ASSERT_TRUE(future.ready());
    EXPECT_THROW(future.get(), Cancelled);
  }
}

// The background thread waits in a continuation, and receives what another thread sleeps for.
TEST_F(LaneTest, AContinuationThatBlocksKeepsNobodyElseWaiting) {
  World::Options options;
  options.workers = 2;
  options.poll = 0us;
  World world(options);
  Caller<Sleeper> quick(world.driver(), world.spawn<Sleeper>(0)),
      slow(world.driver(), world.spawn<Sleeper>(1));
  for (int round = 0; round < 10; ++round) {
    auto nested = pending(world.driver());
    std::promise<void> inside;
    auto blocked = quick.call<&Sleeper::quick>(1).then([&](int) {
      inside.set_value();
      return Future<int>(nested).get();
    });
    inside.get_future().wait();
    auto opener = std::async(std::launch::async, [round] {
      gate.await_arrivals(round + 1);
      std::this_thread::sleep_for(20ms);
      gate.open();
    });
    auto gated = slow.call<&Sleeper::slow>(7);
    bool came = gated.wait_for(20s);
    finish(nested, 3);
    ASSERT_TRUE(came);
    EXPECT_EQ(gated.get(), 7);
    EXPECT_EQ(blocked.get(), 3);
  }
}

TEST_F(LaneTest, StopEndsThreadsThatSleepInGet) {
  for (int round = 0; round < 30; ++round) {
    World::Options options;
    options.poll = 0us;
    World world(options);
    Caller<Sleeper> actor(world.driver(), world.spawn<Sleeper>());
    auto gated = actor.call<&Sleeper::slow>(round);
    // One drives the lane, the others sleep beside it; two of them for what is no call.
    std::vector<Future<int>> waited;
    waited.push_back(std::move(gated));
    for (int i = 0; i < 2; ++i) waited.emplace_back(pending(world.driver()));
    std::vector<std::thread> threads;
    std::atomic<int> cancelled{0};
    for (auto& future : waited) {
      threads.emplace_back([&] {
        try {
          (void)future.get();
        } catch (const Cancelled&) {
          ++cancelled;
        }
      });
    }
    gate.await_arrivals(round + 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 3 * 5));
    world.driver().stop("the program ends");
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(cancelled, 3);
    gate.open();
  }
}

TEST_F(LaneTest, WaitingAfterStopFailsInsteadOfHanging) {
  World world;
  world.driver().stop("the program ends");
  auto state = pending(world.driver());
  EXPECT_THROW(Future<int>(state).get(), Cancelled);
}

}  // namespace
}  // namespace troupe::test
