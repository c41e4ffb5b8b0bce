#include "runtime/device/pinned_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/clock.h"
#include "tests/fake_device/fake_device.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

std::int64_t in(std::chrono::nanoseconds time) { return steady_ns() + time.count(); }

template <class F>
bool eventually(F f) {
  for (int i = 0; i < 3000; ++i) {
    if (f()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(PinnedPool, GivesTheSameBufferAgain) {
  FakeDevice device({{"A"}});
  {
    PinnedPool pool(device);
    auto buffer = pool.take(1000, in(1s));
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), PinnedPool::kSizes[0]);
    std::byte* before = buffer->bytes();
    *buffer = PinnedPool::Buffer();
    EXPECT_EQ(pool.use().in_use, 0u);
    EXPECT_EQ(pool.use().idle, PinnedPool::kSizes[0]);
    auto again = pool.take(PinnedPool::kSizes[0], in(1s));
    EXPECT_EQ(again->bytes(), before);
    auto large = pool.take(PinnedPool::kLargest * 3, in(1s));
    EXPECT_EQ(large->size(), PinnedPool::kLargest) << "more than that comes in pieces";
    EXPECT_EQ(device.counts().host, 2);
  }
  EXPECT_EQ(device.counts().host, 0);
}

TEST(PinnedPool, IsBoundedAndWaitsToTheLimit) {
  FakeDevice device({{"A"}});
  PinnedPool pool(device, {2 << 20, 60s});
  auto first = pool.take(1 << 20, in(1s)), second = pool.take(1 << 20, in(1s));
  ASSERT_TRUE(first && second);
  auto none = pool.take(1, in(20ms));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::deadline_exceeded);
  EXPECT_NE(none.error().message.find("2097152 bytes"), std::string::npos) << none.error().message;
  std::atomic<bool> got{false};
  std::thread waiter([&] {
    EXPECT_TRUE(pool.take(1, in(30s)));
    got = true;
  });
  *first = PinnedPool::Buffer();  // its memory makes room for another size
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_LE(pool.use().idle + pool.use().in_use, 2u << 20);
}

TEST(PinnedPool, IdleBuffersGoBack) {
  FakeDevice device({{"A"}});
  PinnedPool pool(device, {64 << 20, 30ms});
  { auto buffer = pool.take(1, in(1s)); }
  EXPECT_TRUE(eventually([&] { return device.counts().host == 0; }));
  EXPECT_EQ(pool.use().idle, 0u);
}

TEST(PinnedPool, ABufferMayOutliveThePool) {
  FakeDevice device({{"A"}});
  PinnedPool::Buffer buffer;
  {
    PinnedPool pool(device);
    buffer = std::move(*pool.take(1, in(1s)));
  }
  EXPECT_EQ(device.counts().host, 1);
  buffer = {};
  EXPECT_EQ(device.counts().host, 0);
}

TEST(PinnedPool, NoPageLockedMemoryIsSaid) {
  FakeDevice device({{"A"}});
  PinnedPool pool(device, {64 << 10, 60s});
  device.fail_host = 1;
  auto none = pool.take(1, in(1s));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::resource_exhausted);
  EXPECT_TRUE(pool.take(1, in(1s))) << "its place was not lost";
}

}  // namespace
}  // namespace troupe::test
