// What makes memory of the arena ready, and what copies into it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <random>

#include "core/os/mapping.h"
#include "core/os/process.h"
#include "runtime/objects/arena_copy.h"
#include "runtime/objects/populate.h"

namespace troupe {
namespace {

constexpr std::uint64_t kSize = 96 << 20;
constexpr auto kLong = std::chrono::seconds(80);

class ArenaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    arena_.reset(::memfd_create("arena", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(arena_.get(), kSize), 0);
    base_ =
        static_cast<std::byte*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, arena_.get(), 0));
    ASSERT_NE(base_, MAP_FAILED);
  }
  void TearDown() override { ::munmap(base_, kSize); }
  std::uint64_t made() {
    struct stat info {};
    ::fstat(arena_.get(), &info);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  // Waits until so much is told to be ready.
  void wait_for(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(told_.wait_for(lock, kLong, [&] { return ready_ >= bytes; })) << ready_;
  }
  std::function<void(std::uint64_t)> tell() {
    return [this](std::uint64_t up_to) {
      std::lock_guard lock(mutex_);
      ready_ = up_to;
      told_.notify_all();
    };
  }

  UniqueFd arena_;
  std::byte* base_ = nullptr;
  std::mutex mutex_;
  std::condition_variable told_;
  std::uint64_t ready_ = 0;
};

TEST_F(ArenaTest, MemoryIsMadeReadyAndWhatIsInItStays) {
  std::memset(base_ + (5 << 20), 7, 1 << 20);
  {
    Populate populate(arena_.get(), kSize, std::chrono::milliseconds(0), tell(), [] { return true; });
    wait_for(kSize);
  }
  EXPECT_EQ(ready_, kSize);
  EXPECT_EQ(made(), kSize);
  for (std::size_t i = 5 << 20; i < 6 << 20; ++i) ASSERT_EQ(base_[i], std::byte{7}) << i;
  EXPECT_EQ(base_[0], std::byte{0});
}

TEST_F(ArenaTest, ItEndsWhenItIsDroppedInTheMidst) {
  auto before = children_of_this_process();
  for (int round = 0; round < 20; ++round) {
    ready_ = 0;
    Populate populate(arena_.get(), kSize, std::chrono::milliseconds(0), tell(), [] { return true; });
    if (round % 2 == 0) wait_for(4 << 20);
  }
  EXPECT_EQ(children_of_this_process(), before);
  { Populate populate(arena_.get(), kSize, std::chrono::hours(1), tell()); }
}

TEST_F(ArenaTest, ItStopsWhenMemoryRunsShort) {
  std::atomic<int> looks = 0;
  Populate populate(arena_.get(), kSize, std::chrono::milliseconds(0), tell(), [&] { return ++looks <= 3; });
  wait_for(12 << 20);
  auto end = std::chrono::steady_clock::now() + kLong;
  while (looks < 4 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(looks, 4);
  EXPECT_EQ(made(), 12u << 20);
}

TEST_F(ArenaTest, CopiesOfAnySizeArrive) {
  ArenaCopy copy(kSize);
  std::mt19937_64 random(1);
  std::vector<std::byte> from(kSize), want(kSize);
  for (std::size_t i = 0; i < kSize; i += 8) {
    std::uint64_t word = random();
    std::memcpy(&from[i], &word, 8);
  }
  auto one = [&](std::uint64_t at, std::uint64_t size) {
    std::uint64_t source = random() % (kSize - size + 1);
    std::memcpy(want.data() + at, from.data() + source, size);
    copy.copy(base_, at, std::span(from).subspan(source, size));
  };
  one(kSize, 0);
  one(123'457, 1);
  one(ArenaCopy::kPiece - 1, 2);
  one(20 << 20, 3 << 20);
  one(1 << 20, 90 << 20);  // part of it is mapped; large enough for help
  for (int i = 0; i < 200; ++i) {
    std::uint64_t size = random() % (1 << (random() % 22));
    one(random() % (kSize - size), size);
  }
  EXPECT_EQ(std::memcmp(base_, want.data(), kSize), 0);
}

}  // namespace
}  // namespace troupe
