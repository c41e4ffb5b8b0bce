// Copies through staging buffers on a fake device: sizes, gaps, failures, a device that hangs.
#include "runtime/device/tensor_copies.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "core/base/clock.h"
#include "tests/fake_device/fake_device.h"
#include "tests/fake_device/tensors.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

std::int64_t in(std::chrono::nanoseconds time) { return steady_ns() + time.count(); }

class TensorCopies : public testing::Test {
 protected:
  FakeDevice device{{{"A", "B"}}};
  Devices devices{device};

  Tensor up(const Tensor& tensor, int to = 0) {
    auto out = copy_to_device(devices, tensor, Device::cuda(to), in(60s));
    EXPECT_TRUE(out) << out.error().describe();
    return *out;
  }
  Tensor down(const Tensor& tensor) {
    auto out = copy_to_cpu(devices, tensor, in(60s));
    EXPECT_TRUE(out) << out.error().describe();
    return *out;
  }
  // What a copy that failed had in use is given back by a later one, once its stream is through.
  void copy_until_nothing_is_aside(const Tensor& gpu) {
    for (int i = 0; i < 3000 && devices.streams().aside() > 0; ++i) {
      std::this_thread::sleep_for(10ms);
      down(gpu);
    }
  }
};

TEST_F(TensorCopies, OfAllSizes) {
  std::int64_t half = static_cast<std::int64_t>(PinnedPool::kLargest) / 2 / 4;
  for (std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{8191}, std::int64_t{8192},
                         std::int64_t{8193}, half - 1, half, half + 1, 2 * half, 5 * half + 3}) {
    Tensor cpu = counting({n});
    Tensor gpu = up(cpu);
    EXPECT_EQ(gpu.device(), Device::cuda(0));
    EXPECT_TRUE(same(down(gpu), cpu)) << n;
    EXPECT_TRUE(same(down(up(gpu, 1)), cpu)) << n << ", over another device";
  }
  EXPECT_TRUE(same(down(up(counting({}))), counting({}))) << "a scalar";
}

TEST_F(TensorCopies, OfViewsWithGaps) {
  Tensor cpu = counting({30, 40, 50});
  Tensor gpu = up(cpu);
  auto views = [](const Tensor& t) {
    std::vector<Tensor> out{t.transpose(0, 2), t.transpose(1, 2), t.slice(2, 3, 40, 2), t.slice(1, 5, 6),
                            t.select(2, 7),    t.select(0, 3),    t.slice(0, 0, 30, 7), t.slice(2, 0, 20)};
    out.push_back(t.slice(2, 10, 30).transpose(0, 1));
    // A broadcast, and one that runs backwards.
    out.push_back(Tensor::over(t.data(), t.dtype(), {3, 4, 50}, {0, 50, 1}, t.device(), nullptr));
    out.push_back(Tensor::over(static_cast<std::int32_t*>(t.data()) + 49, t.dtype(), {40, 50}, {50, -1},
                               t.device(), nullptr));
    return out;
  };
  auto there = views(gpu), here = views(cpu);
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_TRUE(same(down(there[i]), here[i])) << "view " << i << " down";
    EXPECT_TRUE(same(down(up(here[i])), here[i])) << "view " << i << " up";
    EXPECT_TRUE(same(down(up(there[i], 1)), here[i])) << "view " << i << " across";
  }
  device.copies = 0;
  down(gpu.slice(2, 0, 20));
  EXPECT_LE(device.copies, 2) << "rows of one pitch go at once";
}

TEST_F(TensorCopies, OfRowsLongerThanTheBuffers) {
  Tensor cpu = counting({3, 3 << 20});
  Tensor gpu = up(cpu);
  EXPECT_TRUE(same(down(gpu.slice(1, 1, (3 << 20) - 1)), cpu.slice(1, 1, (3 << 20) - 1)));
}

TEST_F(TensorCopies, WhatIsThereStays) {
  Tensor gpu = up(counting({5}));
  EXPECT_EQ(up(gpu).data(), gpu.data());
  Tensor cpu = counting({5});
  EXPECT_EQ(down(cpu).data(), cpu.data());
}

TEST_F(TensorCopies, LeaveNothing) {
  for (int i = 0; i < 20; ++i) down(up(counting({100'000})));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(same(down(up(counting({50'000}))), counting({50'000})));
    });
  }
  for (auto& thread : threads) thread.join();
  auto counts = device.counts();
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_LE(counts.streams, static_cast<int>(StreamPool::kIdle));
  EXPECT_EQ(counts.events, 2 * counts.streams);
  EXPECT_EQ(devices.pinned().use().in_use, 0u);
}

TEST_F(TensorCopies, AFailedCopyIsTyped) {
  Tensor gpu = up(counting({3 << 20}));
  for (int nth = 0; nth < 3; ++nth) {
    device.fail_copies = 1;
    auto out = copy_to_cpu(devices, gpu, in(60s));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().kind, ErrorKind::unavailable);
  }
  device.fail_copies = 1;
  EXPECT_FALSE(copy_to_device(devices, counting({10}), Device::cuda(1), in(60s)));
  EXPECT_TRUE(same(down(gpu), counting({3 << 20}))) << "and it goes on";
  copy_until_nothing_is_aside(gpu);
  EXPECT_EQ(device.counts().allocations, 1) << "a target that came to nothing is given back";
}

TEST_F(TensorCopies, ADeviceThatHangsEndsInAnError) {
  Tensor gpu = up(counting({1000}));
  device.hang(true);
  auto out = copy_to_cpu(devices, gpu, in(50ms));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().kind, ErrorKind::deadline_exceeded);
  auto into = copy_to_device(devices, counting({1000}), Device::cuda(0), in(50ms));
  ASSERT_FALSE(into);
  EXPECT_EQ(into.error().kind, ErrorKind::deadline_exceeded);
  EXPECT_EQ(devices.streams().aside(), 2u);
  EXPECT_EQ(device.counts().allocations, 2) << "what is being written to is not given back";
  EXPECT_GT(devices.pinned().use().in_use, 0u);
  // More and more of them find the staging buffers taken, which is an error too, and not more memory.
  for (int i = 0; i < 20; ++i) {
    auto one = copy_to_device(devices, counting({4 << 20}), Device::cuda(0), in(20ms));
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error().kind, ErrorKind::deadline_exceeded);
  }
  EXPECT_LE(devices.pinned().use().in_use, PinnedPool::Limits().total);
  device.hang(false);
  copy_until_nothing_is_aside(gpu);
  EXPECT_EQ(devices.streams().aside(), 0u) << "all is back when the device goes on";
  EXPECT_EQ(devices.pinned().use().in_use, 0u);
  EXPECT_EQ(device.counts().allocations, 1);
}

TEST_F(TensorCopies, WrongDevicesAndTooMuch) {
  EXPECT_EQ(copy_to_device(devices, counting({1}), Device::cuda(2), in(1s)).error().kind,
            ErrorKind::wrong_device);
  int nowhere = 0;
  Tensor lost = Tensor::over(&nowhere, DType::i32, {1}, {1}, Device::cuda(9), nullptr);
  EXPECT_EQ(copy_to_cpu(devices, lost, in(1s)).error().kind, ErrorKind::wrong_device);
  Devices small(device, 0.000'001);
  EXPECT_EQ(copy_to_device(small, counting({1000}), Device::cuda(0), in(1s)).error().kind,
            ErrorKind::device_memory_exceeded);
}

}  // namespace
}  // namespace troupe::test
