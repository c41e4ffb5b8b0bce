// The rules for KJ inside Asio, one test each; every one of them fails, by a hang or a crash, when its rule
// is broken.
#include <gtest/gtest.h>
#include <kj/async.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/control/loop.h"
#include "core/control/stream.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Ends the loop, and the test with a failure, when what it waits for never comes.
class Watchdog {
 public:
  explicit Watchdog(ControlLoop& loop)
      : thread_([this, &loop] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, 20s, [this] { return over_; })) {
            fired_ = true;
            loop.stop();
          }
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    EXPECT_FALSE(fired_) << "the loop never did what the test waits for";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false, fired_ = false;
  std::thread thread_;
};

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int pair[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  return {UniqueFd(pair[0]), UniqueFd(pair[1])};
}

TEST(EventPort, Rule1SetRunnableNeverRunsTheLoop) {
  ControlLoop loop;
  Watchdog watchdog(loop);
  bool inside = false, ran = false;
  loop.post([&] {
    inside = true;
    loop.spawn("test", kj::evalLater([&] {
                 ran = true;
                 EXPECT_FALSE(inside) << "the loop ran inside the call that made it runnable";
                 loop.stop();
               }));
    EXPECT_FALSE(ran);
    inside = false;
  });
  loop.run();
  EXPECT_TRUE(ran);
}

// An event from another thread arrives through poll(); what it makes runnable afterwards through run(0).
TEST(EventPort, Rule2CrossThreadEventsAndTheRunnableFlag) {
  ControlLoop loop;
  Watchdog watchdog(loop);
  const kj::Executor& executor = kj::getCurrentThreadExecutor();
  std::atomic<int> executed{0};
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      executor.executeSync([&] { ++executed; });
    }
    loop.post([&] {
      // The flag was left fresh: work made runnable by a plain Asio handler is pumped.
      loop.spawn("test", kj::evalLater([&] { loop.stop(); }));
    });
  });
  loop.run();
  other.join();
  EXPECT_EQ(executed, 100);
}

TEST(EventPort, Rule3PollNeverRunsAsio) {
  ControlLoop loop;
  bool ran = false;
  asio::post(loop.io(), [&] { ran = true; });
  auto later = kj::evalLater([] {});
  while (!later.poll(loop.scope())) {
  }
  EXPECT_FALSE(ran) << "polling KJ ran an Asio handler";
  loop.scope().poll();
  EXPECT_FALSE(ran);
}

TEST(EventPort, Rule3WaitMayMeetItsOwnPump) {
  ControlLoop loop;
  int steps = 0;
  kj::Promise<void> chain = kj::evalLater([&] { ++steps; });
  for (int i = 0; i < 20; ++i) {
    chain = chain.then([&] {
      ++steps;
      // Only the waiter turns the loop, not a pump among the handlers that it lets run.
      EXPECT_FALSE(loop.io().get_executor().running_in_this_thread());
      return loop.timer().afterDelay(1 * kj::MILLISECONDS);
    });
  }
  chain.wait(loop.scope());
  EXPECT_EQ(steps, 21);
  // What a wait leaves runnable is seen to by run().
  Watchdog watchdog(loop);
  loop.spawn("test", kj::evalLast([&] { loop.stop(); }));
  kj::Promise<void>(kj::READY_NOW).wait(loop.scope());
  loop.run();
}

// The stream, and the buffer it reads into, may go while it waits; nothing is written there afterwards.
TEST(EventPort, Rule4NoReadIsLeftInFlight) {
  ControlLoop loop;
  auto [near, far] = socket_pair();
  auto stream = kj::heap<SocketStream>(loop, std::move(near));
  std::vector<char> buffer(16, '.');
  {
    auto read = stream->tryRead(buffer.data(), 1, buffer.size());
    EXPECT_FALSE(read.poll(loop.scope()));
  }  // dropped
  ASSERT_EQ(::write(far.get(), "late", 4), 4);
  loop.timer().afterDelay(1 * kj::MILLISECONDS).wait(loop.scope());
  loop.io().restart();
  while (loop.io().poll_one() != 0) {
  }
  EXPECT_EQ(std::string(buffer.data(), buffer.size()), std::string(16, '.'));
  // The bytes are still there for the next reader.
  EXPECT_EQ(stream->tryRead(buffer.data(), 4, 16).wait(loop.scope()), 4u);
  EXPECT_EQ(std::string(buffer.data(), 4), "late");
}

TEST(EventPort, Rule5TimersFire) {
  ControlLoop loop;
  Watchdog watchdog(loop);
  int fired = 0;
  loop.spawn("test", loop.timer().afterDelay(5 * kj::MILLISECONDS).then([&] {
    ++fired;
    return loop.timer().afterDelay(5 * kj::MILLISECONDS).then([&] {
      ++fired;
      loop.stop();
    });
  }));
  loop.run();
  EXPECT_EQ(fired, 2);
}

// A handler of Asio that only sets a timer makes nothing runnable; the timer must be armed all the same.
TEST(EventPort, Rule5TimersSetByAsioHandlers) {
  ControlLoop loop;
  Watchdog watchdog(loop);
  kj::Maybe<kj::Promise<void>> kept;
  asio::steady_timer quiet(loop.io());
  quiet.expires_after(20ms);  // the first pump is over by then
  quiet.async_wait([&](const std::error_code&) {
    kept = loop.timer().afterDelay(1 * kj::MILLISECONDS).then([&] { loop.stop(); }).eagerlyEvaluate(nullptr);
  });
  loop.run();
  kept = nullptr;
}

// A delay begins when it is asked for, not at the last pump, which may be long ago.
TEST(EventPort, Rule5DelaysAreNeverShort) {
  using Clock = std::chrono::steady_clock;
  ControlLoop loop;
  Watchdog watchdog(loop);
  Clock::time_point asked, fired;
  kj::Maybe<kj::Promise<void>> kept;
  asio::steady_timer quiet(loop.io());
  quiet.expires_after(60ms);
  quiet.async_wait([&](const std::error_code&) {
    asked = Clock::now();
    kept = loop.timer()
               .afterDelay(30 * kj::MILLISECONDS)
               .then([&] {
                 fired = Clock::now();
                 loop.stop();
               })
               .eagerlyEvaluate(nullptr);
  });
  loop.run();
  kept = nullptr;
  EXPECT_GE(fired - asked, 30ms);
}

TEST(EventPort, Rule5EarlierTimersReplaceLaterOnes) {
  ControlLoop loop;
  Watchdog watchdog(loop);
  auto late = loop.timer().afterDelay(1 * kj::HOURS).eagerlyEvaluate(nullptr);
  loop.spawn("test", loop.timer().afterDelay(5 * kj::MILLISECONDS).then([&] { loop.stop(); }));
  loop.run();
}

// Work that always makes more work must not keep Asio's handlers from their turn.
TEST(EventPort, Rule6APumpIsBounded) {
  ControlLoop loop;
  Watchdog watchdog(loop);
  bool stop = false;
  asio::steady_timer timer(loop.io());
  timer.expires_after(5ms);
  timer.async_wait([&](const std::error_code&) {
    stop = true;
    loop.stop();
  });
  int turns = 0;
  std::function<kj::Promise<void>()> again = [&]() -> kj::Promise<void> {
    // The limit keeps a broken pump from hanging the test for ever.
    if (stop || ++turns > 20'000'000) return kj::READY_NOW;
    return kj::evalLater([&] { return again(); });
  };
  loop.spawn("test", again());
  loop.run();
  EXPECT_TRUE(stop);
  EXPECT_LT(turns, 20'000'000) << "Asio's timer starved";
}

// Everything pending at once when the loop goes: reads, writes, timers, posted work, handlers that were
// queued.
TEST(EventPort, Rule7DestructionWithHandlersPending) {
  for (int round = 0; round < 50; ++round) {
    auto posted = std::make_shared<int>(0);
    {
      ControlLoop loop;
      auto [near, far] = socket_pair();
      auto a = kj::heap<SocketStream>(loop, std::move(near));
      auto b = kj::heap<SocketStream>(loop, std::move(far));
      char buffer[8];
      auto read = b->tryRead(buffer, 8, 8).eagerlyEvaluate(nullptr);
      auto ended = a->whenWriteDisconnected().eagerlyEvaluate(nullptr);
      std::string big(round % 2 == 0 ? 3u << 20 : 4u, 'x');
      auto written = a->write(big.data(), big.size()).eagerlyEvaluate(nullptr);
      loop.spawn("timer", loop.timer().afterDelay(1 * kj::HOURS));
      loop.spawn("never", kj::Promise<void>(kj::NEVER_DONE));
      loop.spawn("soon", kj::evalLater([] {}));
      loop.post([posted] { ++*posted; });
      if (round % 3 == 0) loop.io().poll_one();
    }
    EXPECT_EQ(posted.use_count(), 1) << "a posted handler outlived the loop";
    EXPECT_EQ(*posted, 1) << "posted work was lost";
  }
}

struct ThrowsAtTheEnd {
  explicit ThrowsAtTheEnd(int& count) : count(count) {}
  ~ThrowsAtTheEnd() noexcept(false) {
    ++count;
    if (!std::uncaught_exceptions()) KJ_FAIL_REQUIRE("a destructor that throws");
  }
  int& count;
};

// KJ's destructors may throw. Where our code holds them, that is an error in the log and not the process's
// end.
TEST(EventPort, Rule8DestructorsThatThrow) {
  static_assert(!std::is_nothrow_destructible_v<SocketStream>, "a member's exception would end the process");
  static_assert(!std::is_nothrow_destructible_v<ControlLoop>);
  static_assert(!std::is_convertible_v<kj::Own<int>&, kj::Own<int>>,
                "it cannot be captured by a std::function");
  ControlLoop loop;
  Watchdog watchdog(loop);
  int ended = 0;
  loop.spawn("test", kj::evalLater([] {}).attach(kj::heap<ThrowsAtTheEnd>(ended)));
  loop.post([&] {
    auto held = kj::heap<ThrowsAtTheEnd>(ended);  // thrown out of an Asio handler
    (void)held;
  });
  loop.post([&] { loop.spawn("test", kj::evalLater([&] { loop.post([&] { loop.stop(); }); })); });
  loop.run();
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace troupe
