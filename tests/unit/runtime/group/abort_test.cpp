// abort(), deadlines and ranks that are not there: every operation ends, with the reason, and no thread stays
// in a library. Ranks are threads here; process_test.cpp kills processes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>

#include "core/base/clock.h"
#include "core/codec/archive.h"
#include "runtime/group/socket_mesh.h"
#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

using std::chrono::milliseconds;

const Error kWhy(ErrorKind::actor_died, "rank 3 ended: killed by signal 9");

CommunicatorOptions options_of(int rank, int size) {
  CommunicatorOptions options;
  options.token = test_token();
  options.rank = rank;
  options.size = size;
  return options;
}

class Abort : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Abort, testing::Values(2, 3, 4, 8));

// The last rank stays away in the middle of an operation of that many elements.
void away(int size, std::int64_t count) {
  std::atomic<int> waiting{0};
  std::atomic<std::int64_t> aborted_at{0}, longest{0};
  run_ranks(size, [&](Communicator& group) {
    ASSERT_TRUE(group.barrier().wait());
    Tensor tensor = Tensor::zeros(DType::f32, {count});
    if (group.rank() == size - 1) {
      while (waiting < size - 1) std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(20));
      aborted_at = steady_ns();
      while (waiting > 0) std::this_thread::sleep_for(milliseconds(1));
      return;
    }
    Work first = group.all_reduce(tensor, ReduceOp::sum), second = group.barrier();
    ++waiting;
    while (aborted_at == 0) std::this_thread::sleep_for(milliseconds(1));
    std::int64_t start = steady_ns();
    group.abort(kWhy);
    for (Work& work : {std::ref(first), std::ref(second)}) {
      auto result = work.wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::actor_died) << text_of(result);
      EXPECT_EQ(result.error().message, kWhy.message);
    }
    std::int64_t took = steady_ns() - start, before = longest;
    while (took > before && !longest.compare_exchange_weak(before, took)) {
    }
    --waiting;
    auto later = group.all_reduce(tensor, ReduceOp::sum).wait();
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().message, kWhy.message);
    EXPECT_EQ(group.broken()->message, kWhy.message);
    group.abort(Error(ErrorKind::internal, "the first reason counts"));
    EXPECT_EQ(group.broken()->message, kWhy.message);
  });
  std::printf("%d ranks: from abort() to the end of all operations %.1f ms\n", size,
              static_cast<double>(longest) / 1e6);
}

TEST_P(Abort, WhileARankStaysAway) { away(GetParam(), 100); }
TEST_P(Abort, WhileARankStaysAwayFromALargeOperation) { away(GetParam(), 4 << 20); }

TEST_P(Abort, AMissingRankAtConnectEndsByTheDeadline) {
  Watchdog watchdog;
  int size = GetParam();
  Meeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank + 1 < size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator group(options_of(rank, size), meeting.exchange(rank));
      auto result = group.connect(milliseconds(200)).wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::deadline_exceeded);
      EXPECT_TRUE(contains(text_of(result), std::to_string(size - 1))) << text_of(result);
    });
  }
  for (auto& thread : threads) thread.join();
}

// It gave its address, and then does not connect: it is stuck, or its machine is gone.
void silent(int size, bool by_deadline) {
  Watchdog watchdog;
  Meeting meeting(size);
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  std::int64_t deadline = steady_ns() + 500'000'000;  // one for all, however late a thread begins
  std::thread last([&] {
    auto mesh = make_socket_mesh(size - 1, size, "127.0.0.1", test_token());
    auto mine = mesh->address();
    ASSERT_TRUE(mine);
    Writer to;
    encode(to, std::pair(*mine, std::pair(std::string(), std::string())));
    auto exchange = meeting.exchange(size - 1);
    ASSERT_TRUE(exchange->all_gather({reinterpret_cast<const char*>(to.bytes().data()), to.size()},
                                     steady_ns() + 60'000'000'000));
    while (!over) std::this_thread::sleep_for(milliseconds(1));
  });
  for (int rank = 0; rank + 1 < size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator group(options_of(rank, size), meeting.exchange(rank));
      Work work = group.connect(
          by_deadline ? std::chrono::nanoseconds(std::max<std::int64_t>(deadline - steady_ns(), 1))
                      : milliseconds(60'000));
      if (!by_deadline) {
        std::this_thread::sleep_for(milliseconds(50));
        group.abort(kWhy);
      }
      auto result = work.wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, by_deadline ? ErrorKind::deadline_exceeded : ErrorKind::actor_died)
          << text_of(result);
    });
  }
  for (auto& thread : threads) thread.join();
  over = true;
  last.join();
}

TEST_P(Abort, ARankThatDoesNotConnectEndsByTheDeadline) { silent(GetParam(), true); }
TEST_P(Abort, ARankThatDoesNotConnectEndsByAbort) { silent(GetParam(), false); }

TEST_P(Abort, BeforeConnectAndByTheDestructor) {
  Watchdog watchdog;
  Meeting meeting(GetParam());
  Work connect, barrier;
  {
    Communicator group(options_of(0, GetParam()), meeting.exchange(0));
    connect = group.connect();
    barrier = group.barrier();
  }
  EXPECT_EQ(connect.wait().error().kind, ErrorKind::cancelled);
  EXPECT_EQ(barrier.wait().error().kind, ErrorKind::cancelled);
  Communicator group(options_of(0, GetParam()), meeting.exchange(0));
  group.abort(kWhy);
  EXPECT_EQ(group.connect().wait().error().message, kWhy.message);
}

TEST_P(Abort, ARankThatLeavesEndsTheOthers) {
  run_ranks(GetParam(), [](Communicator& group) {
    ASSERT_TRUE(group.barrier().wait());
    if (group.rank() == group.size() - 1) return;  // drops its communicator
    auto result = group.all_reduce(Tensor::zeros(DType::f32, {1 << 20}), ReduceOp::sum).wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::unavailable) << text_of(result);
  });
}

TEST_P(Abort, OtherRanksGenerationsAndUseBeforeConnect) {
  Watchdog watchdog;
  Meeting meeting(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options = options_of(rank, 2);
      options.generation = static_cast<std::uint64_t>(7 + rank);
      Communicator group(options, meeting.exchange(rank));
      auto result = group.connect().wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument) << text_of(result);
    });
  }
  for (auto& thread : threads) thread.join();
  Meeting other(1);
  Communicator early(options_of(0, 1), other.exchange(0));
  EXPECT_TRUE(contains(text_of(early.barrier().wait()), "connect()"));
  for (auto [rank, size] : {std::pair(1, 1), std::pair(-1, 2), std::pair(0, 0), std::pair(0, 5000)}) {
    Communicator wrong(options_of(rank, size), other.exchange(0));
    EXPECT_EQ(wrong.connect().wait().error().kind, ErrorKind::invalid_argument);
  }
  CommunicatorOptions nowhere = options_of(0, 2);
  nowhere.host = "203.0.113.7";  // of no machine
  Communicator group(nowhere, other.exchange(0));
  auto result = group.connect().wait();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::unavailable) << text_of(result);
}

// Lets the first operation go on when told.
class Gate final : public Exchange {
 public:
  explicit Gate(std::shared_ptr<Exchange> behind) : behind_(std::move(behind)) {}
  void open() { open_ = true; }
  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override {
    while (!open_) std::this_thread::yield();
    return behind_->all_gather(mine, deadline_ns);
  }
  void cancel(const Error& why) override { behind_->cancel(why); }

 private:
  std::shared_ptr<Exchange> behind_;
  std::atomic<bool> open_ = false;
};

// The communicator's thread ends its last operation while the destructor runs, now a little earlier, now a
// little later.
TEST(Abort, ACommunicatorMayBeDroppedTheMomentItsLastOperationHasEnded) {
  Watchdog watchdog;
  for (int round = 0; round < 2000; ++round) {
    Meeting meeting(1);
    auto gate = std::make_shared<Gate>(meeting.exchange(0));
    std::atomic<bool> dropping = false;
    Communicator group(options_of(0, 1), gate);
    Work last = group.connect();
    last.then([&](const Result<void>&) {
      while (!dropping) std::this_thread::yield();
      for (int spin = round % 400; spin > 0; --spin) asm volatile("");
    });
    gate->open();
    while (!last.done()) std::this_thread::yield();
    dropping = true;
  }
}

TEST(Queue, TooManyOperationsAreRefused) {
  run_ranks(
      1,
      [](Communicator& group) {
        std::vector<Work> works;
        for (int i = 0; i < 20'000; ++i) works.push_back(group.barrier());
        int refused = 0;
        for (Work& work : works) {
          auto result = work.wait();
          if (!result) {
            ++refused;
            EXPECT_EQ(result.error().kind, ErrorKind::overloaded);
          }
        }
        EXPECT_LT(refused, 20'000);
        ASSERT_TRUE(group.barrier().wait());
      },
      [] {
        CommunicatorOptions options;
        options.token = test_token();
        options.most_queued = 16;
        return options;
      }());
}

}  // namespace
}  // namespace troupe::test
