#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "runtime/agent/memory_policy.h"
#include "runtime/agent/memory_use.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

MemoryReading::Machine roomy() { return {64 * kGiB, 32 * kGiB}; }
MemoryReading::Machine full() { return {64 * kGiB, 100 * kMiB}; }

MemoryReading::Worker worker(std::uint64_t process, std::uint64_t used, std::uint64_t asked) {
  return {process, used, asked, asked > 0};
}

TEST(MemoryPolicy, EachOneAboveWhatItAskedForEnds) {
  MemoryPolicy policy;
  auto allowed = 100 * kMiB + MemoryPolicy::kRuntime;
  auto verdicts = policy.judge({roomy(),
                                {worker(1, allowed, 100 * kMiB), worker(2, allowed + 1, 100 * kMiB),
                                 worker(3, 20 * kGiB, 0), worker(4, 2 * kGiB, 100 * kMiB)}});
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].process, 2u);
  EXPECT_EQ(verdicts[1].process, 4u);
  EXPECT_EQ(verdicts[1].why.kind, ErrorKind::resource_exhausted);
  EXPECT_NE(verdicts[1].why.message.find("used 2048 MiB of memory, and its actors had asked for 100 MiB"),
            std::string::npos);
}

TEST(MemoryPolicy, AFullMachineTakesTheOneThatExceedsItsAskByTheMost) {
  MemoryPolicy policy;
  // The biggest keeps to what it asked for; of two that asked for nothing or little the worse one pays.
  MemoryReading reading{full(),
                        {worker(1, 40 * kGiB, 40 * kGiB), worker(2, 3 * kGiB, 0), worker(3, 5 * kGiB, 0)}};
  EXPECT_TRUE(policy.judge(reading).empty());  // once may be a moment
  auto verdicts = policy.judge(reading);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].process, 3u);
  EXPECT_EQ(verdicts[0].why.kind, ErrorKind::resource_exhausted);
}

TEST(MemoryPolicy, WaitsForWhatItFreed) {
  MemoryPolicy policy;
  MemoryReading reading{full(), {worker(1, 3 * kGiB, 0), worker(2, 2 * kGiB, 0)}};
  int ended = 0, between = 0;
  for (int i = 0; i < 3 * MemoryPolicy::kSettle; ++i) {
    std::size_t now = policy.judge(reading).size();
    ended += static_cast<int>(now);
    if (now == 0 && ended == 1) ++between;
  }
  EXPECT_GE(ended, 2);
  EXPECT_GE(between, MemoryPolicy::kSettle - 1);
}

TEST(MemoryPolicy, NobodyPaysWhenAllKeepToWhatTheyAskedFor) {
  MemoryPolicy policy;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(policy.judge({full(), {worker(1, 4 * kGiB, 5 * kGiB)}}).empty());
  }
}

TEST(MemoryPolicy, WithoutAReadingOfTheMachineOnlyLimitsCount) {
  MemoryPolicy policy;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(policy.judge({{}, {worker(1, 4 * kGiB, 0)}}).empty());
}

TEST(MemoryUse, CountsWhatAProcessAndItsChildrenTouched) {
  std::uint64_t before = private_memory(::getpid());
  constexpr std::size_t kBytes = 96 * kMiB;
  auto ours = std::make_unique<char[]>(kBytes);
  std::memset(ours.get(), 1, kBytes);
  std::uint64_t with = private_memory(::getpid());
  EXPECT_GE(with, before + kBytes * 9 / 10);
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  pid_t child = ::fork();
  if (child == 0) {
    std::memset(ours.get(), 2, kBytes);  // its own copy now
    char ready = 1;
    if (::write(pipes[1], &ready, 1) != 1) ::_exit(1);
    ::pause();
  }
  char ready = 0;
  ASSERT_EQ(::read(pipes[0], &ready, 1), 1);
  EXPECT_GE(private_memory(::getpid()), with + kBytes * 9 / 10);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(private_memory(child), 0u);
  ::close(pipes[0]);
  ::close(pipes[1]);
}

TEST(MemoryUse, OfTheMachine) {
  auto machine = machine_memory();
  EXPECT_GT(machine.total, 0u);
  EXPECT_GT(machine.available, 0u);
  EXPECT_LE(machine.available, machine.total);
}

}  // namespace
}  // namespace troupe
