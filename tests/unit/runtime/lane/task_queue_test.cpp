#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "runtime/lane/task.h"

namespace troupe {
namespace {

TEST(TaskQueue, ManyProducersKeepTheirOrder) {
  constexpr int kProducers = 4, kTasks = 20'000;
  TaskQueue queue;
  std::vector<int> next(kProducers, 0);
  int run = 0;
  bool right = true;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kTasks; ++i) {
        auto work = [&, p, i] {
          right = right && next[static_cast<std::size_t>(p)]++ == i;
          ++run;
        };
        queue.push(new FunctionTask<decltype(work)>(work));
      }
    });
  }
  while (run < kProducers * kTasks) {
    if (queue.run_all() == 0) std::this_thread::yield();
  }
  for (auto& producer : producers) producer.join();
  EXPECT_TRUE(right);
  EXPECT_TRUE(queue.empty());
}

TEST(TaskQueue, WhatIsDroppedIsFreedAndNotRun) {
  TaskQueue queue;
  auto held = std::make_shared<int>(0);
  for (int i = 0; i < 10; ++i) {
    auto work = [held] { ++*held; };
    queue.push(new FunctionTask<decltype(work)>(work));
  }
  EXPECT_EQ(queue.drop_all(), 10);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 0);
}

// A task that hands in another one: it waits for the next round.
TEST(TaskQueue, TasksThatPushTasks) {
  TaskQueue queue;
  int run = 0;
  auto inner = [&] { ++run; };
  auto outer = [&] {
    ++run;
    queue.push(new FunctionTask<decltype(inner)>(inner));
  };
  queue.push(new FunctionTask<decltype(outer)>(outer));
  EXPECT_EQ(queue.run_all(), 1);
  EXPECT_EQ(run, 1);
  EXPECT_EQ(queue.run_all(), 1);
  EXPECT_EQ(run, 2);
}

}  // namespace
}  // namespace troupe
