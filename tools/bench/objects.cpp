// The object store: putting, getting, tensors as arguments; each beside a copy between two touched buffers.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tools/bench/actors.h"
#include "tools/bench/harness.h"

namespace troupe::bench {

std::uint64_t Blob::take(const Tensor& tensor) const {
  return static_cast<std::uint64_t>(tensor.span<float>()[0]);
}

ObjectRef<std::vector<std::byte>> Blob::make(std::uint64_t bytes) const {
  std::vector<std::byte> data(bytes, std::byte{1});
  return put(data);
}

namespace {

constexpr std::size_t kPut = 800'000'000, kGet = std::size_t{1} << 30, kTensor = 1 << 20;

const std::vector<std::byte>& source() {
  static const std::vector<std::byte> data(kPut, std::byte{7});
  return data;
}

double copy_gbps() {
  static std::vector<std::byte> to(kPut, std::byte{1});
  double begin = seconds_now();
  std::memcpy(to.data(), source().data(), kPut);
  double rate = kPut / (seconds_now() - begin) / 1e9;
  if (to[kPut - 1] != std::byte{7}) std::abort();
  return rate;
}

double put_gbps() {
  static bool warm = false;
  for (;; warm = true) {
    double begin = seconds_now();
    auto object = put(std::span(source()));
    double took = seconds_now() - begin;
    if (warm) return kPut / took / 1e9;
  }
}

// In a cluster of its own, whose node has joined two seconds before.
double put_cold_gbps() {
  auto here = std::filesystem::read_symlink("/proc/self/exe");
  std::string command =
      (here.parent_path() / "troupe").string() + " run --local --nodes 1 " + here.string() + " --cold-put";
  FILE* out = ::popen(command.c_str(), "r");
  double rate = 0;
  if (out == nullptr || std::fscanf(out, "%lf", &rate) != 1 || ::pclose(out) != 0) {
    std::fprintf(stderr, "bench: the cluster of the cold put failed\n");
    std::exit(1);
  }
  return rate;
}

Handle<Blob>& blob() {
  static Handle<Blob> actor = spawn<Blob>(ActorOptions());
  return actor;
}

double get_us() {
  static auto object = blob().call<&Blob::make>(kGet).get();
  constexpr int kGets = 1000;
  object.get();
  double begin = seconds_now();
  for (int i = 0; i < kGets; ++i) {
    auto there = object.get();
    if (there->size() != kGet) std::abort();
  }
  return (seconds_now() - begin) / kGets * 1e6;
}

double tensor_gbps() {
  constexpr int kCalls = 3000;
  static Tensor tensor = Tensor::from(std::vector<float>(kTensor / 4, 3.0f));
  double begin = 0;
  for (int i = -500; i < kCalls; ++i) {
    if (i == 0) begin = seconds_now();
    if (blob().call<&Blob::take>(tensor).get() != 3) std::abort();
  }
  return static_cast<double>(kTensor) * kCalls / (seconds_now() - begin) / 1e9;
}

// A megabyte at a time, into memory of 64 MiB in turn.
double copy_1m_gbps() {
  constexpr int kCopies = 6000, kPlaces = 64;
  static std::vector<std::byte> from(kTensor, std::byte{3}), to(kTensor * kPlaces, std::byte{1});
  double begin = seconds_now();
  for (int i = 0; i < kCopies; ++i) {
    std::memcpy(to.data() + static_cast<std::size_t>(i % kPlaces) * kTensor, from.data(), kTensor);
    asm volatile("" ::: "memory");
  }
  return static_cast<double>(kTensor) * kCopies / (seconds_now() - begin) / 1e9;
}

}  // namespace

// The program of object_put_cold.
int cold_put() {
  double started = seconds_now();
  const auto& data = source();
  double left = started + 2 - seconds_now();
  if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
  double begin = seconds_now();
  auto object = put(std::span(data));
  std::printf("%.3f\n", kPut / (seconds_now() - begin) / 1e9);
  return 0;
}

std::vector<Case> object_cases() {
  std::vector<Case> out;
  out.push_back({"object_put", "GB/s", "put of 800 MB into memory that was used before; floor: memcpy",
                 put_gbps, copy_gbps});
  Case cold{"object_put_cold", "GB/s", "the first put of 800 MB, two seconds after the node joined",
            put_cold_gbps, copy_gbps};
  cold.cluster = false;
  cold.runs = 3;
  out.push_back(cold);
  out.push_back({"object_get", "µs", "get of 1 GiB that another process of the node has put", get_us, {}});
  out.push_back({"actor_tensor_1m", "GB/s",
                 "a call with a tensor of 1 MiB on its node; floor: memcpy of 1 MiB", tensor_gbps,
                 copy_1m_gbps});
  return out;
}

}  // namespace troupe::bench
