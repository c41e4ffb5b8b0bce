// Parts of a group: who is in which, in which order; they work beside the whole and end with it.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

float sum_in(Communicator& group, float value, std::int64_t count = 1) {
  Tensor tensor = Tensor::from(std::vector<float>(static_cast<std::size_t>(count), value));
  auto result = group.all_reduce(tensor, ReduceOp::sum).wait();
  EXPECT_TRUE(result) << text_of(result);
  return tensor.span<float>().back();
}

std::shared_ptr<SubGroup> part_of(Communicator& group, int color, int key) {
  auto part = std::make_shared<SubGroup>();
  auto result = group.split(color, key, part).wait();
  EXPECT_TRUE(result) << text_of(result);
  return part;
}

class Split : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Split, testing::Values(1, 2, 3, 4, 8));

TEST_P(Split, ByColorInTheOrderOfTheKeys) {
  run_ranks(GetParam(), [](Communicator& group) {
    int me = group.rank(), size = group.size();
    auto part = part_of(group, me % 2, -me);  // the last comes first
    std::vector<int> expected;
    float sum = 0;
    for (int r = size - 1; r >= 0; --r)
      if (r % 2 == me % 2) expected.push_back(r), sum += static_cast<float>(r);
    ASSERT_EQ(part->ranks, expected);
    ASSERT_EQ(part->communicator->size(), static_cast<int>(expected.size()));
    ASSERT_EQ(expected[static_cast<std::size_t>(part->communicator->rank())], me);
    for (std::int64_t count : {1, 100'000}) {
      EXPECT_EQ(sum_in(*part->communicator, static_cast<float>(me), count), sum);
      EXPECT_EQ(sum_in(group, 1, count), static_cast<float>(size));
    }
    // A part of the part, each alone.
    auto alone = part_of(*part->communicator, part->communicator->rank(), 0);
    EXPECT_EQ(alone->communicator->size(), 1);
    EXPECT_EQ(sum_in(*alone->communicator, 5), 5);
    ASSERT_TRUE(group.barrier().wait());
  });
}

TEST_P(Split, EqualKeysKeepTheOrderAndANegativeColorIsInNone) {
  run_ranks(GetParam(), [](Communicator& group) {
    auto part = part_of(group, group.rank() == 0 ? -1 : 7, 3);
    if (group.rank() == 0) {
      EXPECT_EQ(part->communicator, nullptr);
    } else {
      EXPECT_EQ(part->communicator->rank(), group.rank() - 1);
      EXPECT_EQ(sum_in(*part->communicator, 1), static_cast<float>(group.size() - 1));
    }
    ASSERT_TRUE(group.barrier().wait());
  });
}

// Each on its own thread: neither waits for the other.
TEST_P(Split, PartsAndTheWholeWorkAtTheSameTime) {
  run_ranks(GetParam(), [](Communicator& group) {
    auto rows = part_of(group, group.rank() / 2, 0), columns = part_of(group, group.rank() % 2, 0);
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 30; ++i) {
      for (Communicator* one : {&group, rows->communicator.get(), columns->communicator.get()}) {
        tensors.push_back(Tensor::from(std::vector<float>(i % 3 == 0 ? 50'000 : 10, 1.0f)));
        works.push_back(one->all_reduce(tensors.back(), ReduceOp::sum));
      }
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      auto result = works[i].wait();
      ASSERT_TRUE(result) << text_of(result);
      int size = i % 3 == 0 ? group.size() : static_cast<int>((i % 3 == 1 ? rows : columns)->ranks.size());
      EXPECT_EQ(tensors[i].span<float>()[9], static_cast<float>(size));
    }
    ASSERT_TRUE(group.barrier().wait());
  });
}

TEST_P(Split, ARankThatCallsSomethingElseIsNamedAndTheGroupGoesOn) {
  if (GetParam() == 1) return;
  run_ranks(GetParam(), [](Communicator& group) {
    auto part = std::make_shared<SubGroup>();
    auto result = (group.rank() == 1 ? group.barrier() : group.split(0, 0, part)).wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
    EXPECT_TRUE(contains(text_of(result), "rank 1 called barrier")) << text_of(result);
  });
}

// A split exchanges twice, what was called instead once: later calls must still agree.
TEST_P(Split, AfterAMismatchTheGroupIsStillInStep) {
  if (GetParam() == 1) return;
  run_ranks(GetParam(), [](Communicator& group) {
    auto part = std::make_shared<SubGroup>();
    ASSERT_FALSE((group.rank() == 1 ? group.barrier() : group.split(0, 0, part)).wait());
    EXPECT_EQ(sum_in(group, 1), static_cast<float>(group.size()));
  });
}

TEST_P(Split, PartsEndWithTheWhole) {
  if (GetParam() == 1) return;
  std::atomic<int> waiting{0};
  run_ranks(GetParam(), [&](Communicator& group) {
    auto part = part_of(group, 0, 0);
    ASSERT_TRUE(part->communicator->barrier().wait());
    if (group.rank() == 0) {
      while (waiting + 1 < group.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      group.abort(Error(ErrorKind::actor_died, "rank 1 ended"));
      EXPECT_FALSE(part->communicator->barrier().wait());
      return;
    }
    Work stuck = part->communicator->barrier();
    ++waiting;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    group.abort(Error(ErrorKind::actor_died, "rank 1 ended"));
    auto result = stuck.wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(group.broken()->message, "rank 1 ended");
  });
}

TEST(Place, TwoRanksOnOneGpuAreRefusedOnEveryRank) {
  Watchdog watchdog;
  Meeting meeting(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.rank = rank;
      options.size = 3;
      options.token = test_token();
      options.place = rank == 1 ? "GPU 1 of host a" : "GPU 0 of host a";
      Communicator group(options, meeting.exchange(rank));
      auto result = group.connect(std::chrono::seconds(60)).wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
      EXPECT_TRUE(contains(text_of(result), "ranks 0 and 2 are both on GPU 0 of host a")) << text_of(result);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace troupe::test
