// Accounting of device memory against a share, on a fake device.
#include "runtime/device/device_memory.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/fake_device/fake_device.h"

namespace troupe::test {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST(DeviceMemory, IsAccountedAgainstTheShare) {
  FakeDevice device({{"A", "B"}, 64 << 20});
  DeviceMemory memory(device, 0.5);
  auto first = memory.empty(Device::cuda(0), DType::u8, {24 * kMiB});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->describe(), "u8 [25165824] on cuda:0");
  auto use = memory.use(Device::cuda(0));
  ASSERT_TRUE(use);
  EXPECT_EQ(use->total, 64u << 20);
  EXPECT_EQ(use->limit, 32u << 20);
  EXPECT_EQ(use->in_use, 24u << 20);
  auto more = memory.empty(Device::cuda(0), DType::u8, {9 * kMiB});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().kind, ErrorKind::device_memory_exceeded);
  EXPECT_EQ(more.error().message,
            "cuda:0: 9437184 bytes were asked for, 25165824 are in use by this process, its share is "
            "33554432 bytes; "
            "free tensors, or ask for more with ActorOptions().gpus()");
  EXPECT_TRUE(memory.empty(Device::cuda(1), DType::u8, {32 * kMiB})) << "another card has its own account";
  EXPECT_TRUE(memory.empty(Device::cuda(0), DType::u8, {8 * kMiB})) << "up to the last byte";
  Tensor view = first->slice(0, 0, 10);
  first->reset();
  EXPECT_EQ(memory.use(Device::cuda(0))->in_use, 24u << 20) << "a view keeps it";
  view.reset();
  EXPECT_EQ(memory.use(Device::cuda(0))->in_use, 0u);
  EXPECT_EQ(device.counts(), FakeDevice::Counts());
}

TEST(DeviceMemory, TensorsMayOutliveTheAccount) {
  FakeDevice device({{"A"}, 1 << 20});
  Tensor tensor;
  {
    DeviceMemory memory(device, 1);
    tensor = *memory.empty(Device::cuda(0), DType::f32, {4, 5});
  }
  EXPECT_EQ(device.counts().allocations, 1);
  tensor.reset();
  EXPECT_EQ(device.counts().allocations, 0);
}

TEST(DeviceMemory, AFullCardAndAWrongOneAreTypedErrors) {
  FakeDevice device({{"A"}, 1 << 20});
  DeviceMemory memory(device, 1), others(device, 1);
  auto taken = others.empty(Device::cuda(0), DType::u8, {900 << 10});
  auto full = memory.empty(Device::cuda(0), DType::u8, {900 << 10});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::device_memory_exceeded);
  EXPECT_NE(full.error().message.find("the card has not so much left"), std::string::npos)
      << full.error().message;
  EXPECT_EQ(memory.use(Device::cuda(0))->in_use, 0u);
  for (Device wrong : {Device::cuda(1), Device::cuda(-1), Device::cpu()}) {
    auto none = memory.empty(wrong, DType::u8, {1});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().kind, ErrorKind::wrong_device);
  }
}

TEST(DeviceMemory, ManyThreadsNeverExceedTheShare) {
  FakeDevice device({{"A"}, 1 << 20});
  DeviceMemory memory(device, 0.5);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto tensor = memory.empty(Device::cuda(0), DType::u8, {200 << 10});
        EXPECT_LE(memory.use(Device::cuda(0))->in_use, 512u << 10);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.use(Device::cuda(0))->in_use, 0u);
}

}  // namespace
}  // namespace troupe::test
