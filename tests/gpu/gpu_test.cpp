// What a machine with GPUs shows: NCCL with one rank a GPU, as threads of this process; copies; parts; an
// abort. Skipped where no GPU is seen. tools/gpu-check makes a table of the lines that begin with "gpu:".
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "core/base/clock.h"
#include "runtime/device/cuda/cuda_library.h"
#include "runtime/group/cuda/nccl_library.h"
#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

int gpus() {
  auto library = CudaLibrary::get();
  int count = 0;
  if (!library || !NcclLibrary::get() || (*library)->device_count(&count) != cudaSuccess) return 0;
  return count;
}

void row(const char* what, double value, const char* unit, const std::string& note = "") {
  std::printf("gpu: %-34s %12.4g %-6s %s\n", what, value, unit, note.c_str());
}

double seconds_since(std::int64_t begin) { return static_cast<double>(steady_ns() - begin) / 1e9; }

#define NEEDS_GPUS(least) \
  if (gpus() < (least)) GTEST_SKIP() << "needs " << (least) << " GPUs, this process sees " << gpus()

const CudaLibrary& cuda() { return **CudaLibrary::get(); }

Tensor on_gpu(int device, std::int64_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cuda().set_device(device), cudaSuccess);
  EXPECT_EQ(cuda().allocate(&memory, static_cast<std::size_t>(count) * 4), cudaSuccess);
  return Tensor::over(memory, DType::f32, {count}, {1}, Device::cuda(device),
                      std::shared_ptr<void>(memory, cuda().release));
}

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cuda().stream_create(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cuda().copy(to, from, bytes, kind, stream), cudaSuccess);
  while (cuda().stream_query(stream) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT_EQ(cuda().stream_query(stream), cudaSuccess);
  cuda().stream_destroy(stream);
}

void run_gpu_ranks(int size, const std::function<void(Communicator&)>& f) {
  Watchdog watchdog;
  Meeting meeting(size);
  std::vector<std::thread> threads;
  std::atomic<double> longest{0};
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.rank = rank;
      options.size = size;
      options.token = test_token();
      options.device = Device::cuda(rank);
      Communicator group(options, meeting.exchange(rank));
      std::int64_t begin = steady_ns();
      auto connected = group.connect(std::chrono::seconds(60)).wait();
      ASSERT_TRUE(connected) << text_of(connected);
      if (rank == 0) longest = seconds_since(begin);
      f(group);
    });
  }
  for (auto& thread : threads) thread.join();
  row("NCCL init", longest * 1e3, "ms", std::to_string(size) + " ranks");
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> host(static_cast<std::size_t>(tensor.numel()));
  cuda().set_device(tensor.device().index);
  copy(host.data(), tensor.data(), tensor.nbytes(), cudaMemcpyDeviceToHost);
  return host;
}

void fill(const Tensor& tensor, float value) {
  std::vector<float> host(static_cast<std::size_t>(tensor.numel()), value);
  cuda().set_device(tensor.device().index);
  copy(tensor.data(), host.data(), tensor.nbytes(), cudaMemcpyHostToDevice);
}

TEST(Gpu, CopiesBetweenHostAndDevice) {
  NEEDS_GPUS(1);
  for (int device = 0; device < gpus(); ++device) {
    Tensor tensor = on_gpu(device, 64 << 20);
    std::vector<float> host(64 << 20, 3.0f);
    for (auto [what, kind] : {std::pair("host to device", cudaMemcpyHostToDevice),
                              std::pair("device to host", cudaMemcpyDeviceToHost)}) {
      bool up = kind == cudaMemcpyHostToDevice;
      void* to = up ? tensor.data() : host.data();
      const void* from = up ? host.data() : tensor.data();
      copy(to, from, tensor.nbytes(), kind);  // pages are there
      std::int64_t begin = steady_ns();
      copy(to, from, tensor.nbytes(), kind);
      row(what, static_cast<double>(tensor.nbytes()) / seconds_since(begin) / 1e9, "GB/s",
          "256 MiB, pageable, " + to_string(tensor.device()));
    }
    EXPECT_EQ(values_of(tensor)[12345], 3.0f);
  }
}

TEST(Gpu, AllReduce) {
  NEEDS_GPUS(1);
  run_gpu_ranks(gpus(), [](Communicator& group) {
    for (std::int64_t count : {1L, 1000L, 16L << 20}) {
      Tensor tensor = on_gpu(group.rank(), count);
      fill(tensor, static_cast<float>(group.rank() + 1));
      auto result = group.all_reduce(tensor, ReduceOp::sum).wait();
      ASSERT_TRUE(result) << text_of(result);
      float sum = static_cast<float>(group.size() * (group.size() + 1)) / 2;
      EXPECT_EQ(values_of(tensor)[static_cast<std::size_t>(count - 1)], sum);
      ASSERT_TRUE(group.barrier().wait());
      std::int64_t begin = steady_ns();
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(group.all_reduce(tensor, ReduceOp::sum).wait());
      if (group.rank() == 0)
        row("all_reduce", seconds_since(begin) / 20 * 1e6, "us", std::to_string(count * 4) + " bytes");
      ASSERT_TRUE(group.barrier().wait());
    }
  });
}

TEST(Gpu, EveryCollective) {
  NEEDS_GPUS(1);
  run_gpu_ranks(gpus(), [](Communicator& group) {
    int me = group.rank(), size = group.size();
    Tensor one = on_gpu(me, 1000), all = on_gpu(me, 1000L * size);
    fill(one, static_cast<float>(me));
    auto good = [](const Work& work) { ASSERT_TRUE(work.wait()) << text_of(work.wait()); };
    good(group.all_gather(one, all));
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(values_of(all)[static_cast<std::size_t>(r * 1000 + 999)], static_cast<float>(r));
    good(group.reduce_scatter(all, one, ReduceOp::sum));
    EXPECT_EQ(values_of(one)[0], static_cast<float>(me * size));
    fill(one, static_cast<float>(me));
    good(group.broadcast(one, size - 1));
    EXPECT_EQ(values_of(one)[500], static_cast<float>(size - 1));
    fill(all, static_cast<float>(me));
    Tensor turned = on_gpu(me, 1000L * size);
    good(group.all_to_all(all, turned));
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(values_of(turned)[static_cast<std::size_t>(r * 1000)], static_cast<float>(r));
    auto part = std::make_shared<SubGroup>();
    good(group.split(me % 2, 0, part));
    fill(one, 1);
    good(part->communicator->all_reduce(one, ReduceOp::sum));
    EXPECT_EQ(values_of(one)[0], static_cast<float>(part->ranks.size()));
    // Tensors of the CPU are another device: an error, and the group goes on.
    auto wrong = group.all_reduce(Tensor::zeros(DType::f32, {4}), ReduceOp::sum).wait();
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().kind, ErrorKind::invalid_argument);
    good(group.barrier());
  });
}

TEST(Gpu, AbortEndsAnOperationWhoseRankStaysAway) {
  NEEDS_GPUS(2);
  std::atomic<bool> over{false};
  run_gpu_ranks(gpus(), [&](Communicator& group) {
    Tensor tensor = on_gpu(group.rank(), 16 << 20);
    if (group.rank() == group.size() - 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    Work work = group.all_reduce(tensor, ReduceOp::sum);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::int64_t begin = steady_ns();
    group.abort(Error(ErrorKind::actor_died, "the last rank ended"));
    auto result = work.wait();
    if (group.rank() == 0) row("abort", seconds_since(begin) * 1e3, "ms");
    EXPECT_FALSE(result);
    over = true;
  });
}

// A kernel of this folder (kernel.cu), where nvcc was there to compile it.
TEST(Gpu, Kernel) {
  NEEDS_GPUS(1);
#ifdef TROUPE_GPU_KERNEL
  void* library = ::dlopen(TROUPE_GPU_KERNEL, RTLD_NOW);
  if (library == nullptr) library = ::dlopen("./libgpu_kernel.so", RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto scale = reinterpret_cast<int (*)(float*, float, long)>(::dlsym(library, "troupe_scale"));
  ASSERT_NE(scale, nullptr);
  Tensor tensor = on_gpu(0, 16 << 20);
  fill(tensor, 2);
  cuda().set_device(0);
  std::int64_t begin = steady_ns();
  ASSERT_EQ(scale(static_cast<float*>(tensor.data()), 3, tensor.numel()), 0);
  row("kernel", seconds_since(begin) * 1e6, "us", "64 MiB scaled, with launch and wait");
  EXPECT_EQ(values_of(tensor)[77], 6.0f);
#else
  GTEST_SKIP() << "built without nvcc";
#endif
}

}  // namespace
}  // namespace troupe::test
