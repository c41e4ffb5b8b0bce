// Device memory, staged copies and memory shared between processes, on the GPUs of this machine: what
// tests/unit/runtime/device and tests/integration/cluster/devices_test.cpp show with fake ones. Skipped where
// no GPU is seen.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>

#include "core/base/clock.h"
#include "runtime/device/tensor_copies.h"
#include "tests/fake_device/tensors.h"

namespace troupe::test {
namespace {

Devices* devices() {
  auto found = Devices::get();
  return found ? *found : nullptr;
}

#define NEEDS_GPU() \
  if (devices() == nullptr) GTEST_SKIP() << "needs 1 GPUs, this process sees 0"

std::int64_t soon() { return steady_ns() + 60'000'000'000; }
void row(const char* what, double value, const char* unit, const std::string& note = "") {
  std::printf("gpu: %-34s %12.4g %-6s %s\n", what, value, unit, note.c_str());
}
double seconds_since(std::int64_t begin) { return static_cast<double>(steady_ns() - begin) / 1e9; }

Tensor up(const Tensor& tensor, int device = 0) {
  auto out = copy_to_device(*devices(), tensor, Device::cuda(device), soon());
  EXPECT_TRUE(out) << out.error().describe();
  return out ? *out : Tensor();
}
Tensor down(const Tensor& tensor) {
  auto out = copy_to_cpu(*devices(), tensor, soon());
  EXPECT_TRUE(out) << out.error().describe();
  return out ? *out : Tensor();
}

TEST(Gpu, StagedCopies) {
  NEEDS_GPU();
  for (std::int64_t n : {0L, 1L, 16'383L, 16'385L, 1L << 20, (5L << 20) + 3})
    EXPECT_TRUE(same(down(up(counting({n}))), counting({n}))) << n;
  Tensor cpu = counting({30, 40, 50}), gpu = up(cpu);
  EXPECT_TRUE(same(down(gpu.transpose(0, 2)), cpu.transpose(0, 2)));
  EXPECT_TRUE(same(down(gpu.slice(2, 0, 20)), cpu.slice(2, 0, 20)));
  EXPECT_TRUE(same(down(gpu.slice(2, 3, 40, 2)), cpu.slice(2, 3, 40, 2)));
  Tensor large = Tensor::zeros(DType::u8, {256 << 20}), there = up(large);
  std::int64_t begin = steady_ns();
  ASSERT_TRUE(copy_in(*devices(), there, static_cast<std::byte*>(large.data()), soon()));
  row("staged, host to device", 256.0 / 1024 * 1.073741824 / seconds_since(begin), "GB/s", "256 MiB");
  begin = steady_ns();
  ASSERT_TRUE(copy_out(*devices(), there, static_cast<std::byte*>(large.data()), soon()));
  row("staged, device to host", 256.0 / 1024 * 1.073741824 / seconds_since(begin), "GB/s", "256 MiB");
  int count = devices()->driver().count();
  if (count > 1) {
    EXPECT_TRUE(same(down(up(gpu.transpose(0, 1), 1)), cpu.transpose(0, 1))) << "to another GPU";
  }
}

TEST(Gpu, MemoryIsAccounted) {
  NEEDS_GPU();
  DeviceMemory small(devices()->driver(), 1e-4);
  auto use = small.use(Device::cuda(0));
  ASSERT_TRUE(use) << use.error().describe();
  auto over = small.empty(Device::cuda(0), DType::u8, {static_cast<std::int64_t>(use->limit) + 1});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, ErrorKind::device_memory_exceeded);
  {
    auto all = small.empty(Device::cuda(0), DType::u8, {static_cast<std::int64_t>(use->limit)});
    ASSERT_TRUE(all) << all.error().describe();
    EXPECT_EQ(small.use(Device::cuda(0))->in_use, use->limit);
  }
  EXPECT_EQ(small.use(Device::cuda(0))->in_use, 0u);
  auto full = devices()->memory().empty(Device::cuda(0), DType::u8, {static_cast<std::int64_t>(use->total)});
  ASSERT_FALSE(full) << "a context takes some of it";
  EXPECT_EQ(full.error().kind, ErrorKind::device_memory_exceeded) << full.error().describe();
  int wrong = devices()->driver().count();
  EXPECT_EQ(small.empty(Device::cuda(wrong), DType::u8, {1}).error().kind, ErrorKind::wrong_device);
  auto identity = devices()->driver().identity(0);
  ASSERT_TRUE(identity);
  row("share refused", static_cast<double>(use->limit) / (1 << 20), "MiB", *identity);
}

// ---- two processes: this program again, with a case of its own ----

std::string text_of(const DeviceDriver::Exported& memory) {
  std::string out = std::to_string(memory.offset);
  for (std::byte byte : memory.handle) out += " " + std::to_string(static_cast<int>(byte));
  return out;
}
DeviceDriver::Exported parse(const char* text) {
  DeviceDriver::Exported out;
  std::istringstream in(text);
  in >> out.offset;
  for (auto& byte : out.handle) {
    int value = 0;
    in >> value;
    byte = static_cast<std::byte>(value);
  }
  return out;
}
FILE* run_again(const char* test) {
  std::string command = "exec \"$(readlink /proc/" + std::to_string(::getpid()) +
                        "/exe)\" --gtest_also_run_disabled_tests --gtest_filter=Gpu.DISABLED_" + test +
                        " 2>&1";
  return ::popen(command.c_str(), "r");
}

TEST(Gpu, MemoryIsSharedWithAnotherProcess) {
  NEEDS_GPU();
  Tensor tensor = up(counting({1 << 20}));
  auto memory = devices()->driver().export_memory(0, static_cast<std::byte*>(tensor.data()) + 400);
  ASSERT_TRUE(memory) << memory.error().describe();
  EXPECT_GE(memory->offset, 400u);
  ::setenv("TROUPE_GPU_MEMORY", text_of(*memory).c_str(), 1);
  FILE* child = run_again("Reader");
  std::string said;
  for (int c; (c = std::fgetc(child)) != EOF;) said += static_cast<char>(c);
  EXPECT_EQ(::pclose(child), 0) << said;
  if (auto at = said.find("gpu: "); at != said.npos)
    std::printf("%s", said.substr(at, said.find('\n', at) + 1 - at).c_str());
  EXPECT_EQ(down(tensor).span<std::int32_t>()[100], -5) << "what the other process wrote";
}

TEST(Gpu, DISABLED_Reader) {
  NEEDS_GPU();
  const char* text = std::getenv("TROUPE_GPU_MEMORY");
  ASSERT_NE(text, nullptr);
  auto memory = parse(text);
  auto& driver = devices()->driver();
  up(counting({1}));  // the context is there
  std::int64_t began = steady_ns();
  auto begin = driver.open(0, memory.handle);
  ASSERT_TRUE(begin) << begin.error().describe();
  row("memory of another process opened", seconds_since(began) * 1e6, "us");
  Tensor there = Tensor::over(static_cast<std::byte*>(*begin) + memory.offset, DType::i32, {1000}, {1},
                              Device::cuda(0), nullptr);
  EXPECT_EQ(down(there).span<std::int32_t>()[0], 107);
  std::int32_t value = -5;
  ASSERT_TRUE(copy_in(*devices(), there.slice(0, 0, 1), reinterpret_cast<std::byte*>(&value), soon()));
  driver.close(0, *begin);
}

// What this GPU does when an exporter is killed is shown, not judged; nothing here may crash or hang.
TEST(Gpu, AKilledExporter) {
  NEEDS_GPU();
  FILE* child = run_again("Exporter");
  std::string line;
  int pid = 0;
  for (int c; (c = std::fgetc(child)) != EOF;) {
    line += static_cast<char>(c);
    if (c != '\n') continue;
    if (line.rfind("memory ", 0) == 0) break;
    line.clear();
  }
  ASSERT_EQ(std::sscanf(line.c_str(), "memory %d", &pid), 1) << line;
  auto memory = parse(line.c_str() + line.find(' ', 8));
  auto& driver = devices()->driver();
  up(counting({1}));
  auto begin = driver.open(0, memory.handle);
  ASSERT_TRUE(begin) << begin.error().describe();
  ::kill(pid, SIGKILL);
  ::pclose(child);
  Tensor there = Tensor::over(static_cast<std::byte*>(*begin) + memory.offset, DType::i32, {1000}, {1},
                              Device::cuda(0), nullptr);
  auto read = copy_to_cpu(*devices(), there, soon());
  row("read after the exporter was killed", read ? 1 : 0, "",
      read ? "its elements are there" : read.error().message);
  driver.close(0, *begin);
  auto again = driver.open(0, memory.handle);
  row("opened after it was killed", again ? 1 : 0, "", again ? "" : again.error().message);
  if (again) driver.close(0, *again);
}

TEST(Gpu, DISABLED_Exporter) {
  NEEDS_GPU();
  Tensor tensor = up(counting({1000}));
  auto memory = devices()->driver().export_memory(0, tensor.data());
  ASSERT_TRUE(memory);
  std::printf("memory %d %s\n", ::getpid(), text_of(*memory).c_str());
  std::fflush(stdout);
  ::sleep(60);
}

}  // namespace
}  // namespace troupe::test
