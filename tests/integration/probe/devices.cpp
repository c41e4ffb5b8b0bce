#include "devices.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "check.h"
#include "tests/fake_device/fake_device.h"

namespace probe {

using namespace std::chrono_literals;
using troupe::ActorOptions;
using troupe::CallOptions;
using troupe::Device;
using troupe::DType;
using troupe::ErrorKind;
using troupe::Handle;
using troupe::Tensor;
using troupe::test::FakeDevice;

namespace {

FakeDevice& fake() {
  static auto* only = new FakeDevice;
  return *only;
}

Tensor full(std::int64_t count, float value) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(count), value));
}
Tensor on_gpu(std::int64_t count, float value, int device = 0) {
  return troupe::to_device(full(count, value), Device::cuda(device));
}
float add(const Tensor& tensor) {
  float all = 0;
  Tensor cpu = troupe::to_cpu(tensor).contiguous();
  for (float one : cpu.span<float>()) all += one;
  return all;
}

}  // namespace

void install_fake_devices() {
  if (std::getenv("TROUPE_FAKE_DEVICES") != nullptr) troupe::install_device_driver(&fake());
}

Tensor Gpu::make(std::int64_t count, float value) { return on_gpu(count, value); }
float Gpu::sum(const Tensor& tensor) const { return add(tensor); }
void Gpu::set(Tensor tensor, float value) {
  std::fill_n(static_cast<float*>(tensor.data()), tensor.numel(), value);
}
float Gpu::sum_kept() const {
  float all = 0;
  for (const auto& one : kept_) all += add(one);
  return all;
}
Batch Gpu::turn(Batch batch) const {
  std::reverse(batch.tensors.begin(), batch.tensors.end());
  return batch;
}
troupe::Generator<Tensor> Gpu::several(int n) {
  for (int i = 0; i < n; ++i) {
    Tensor one = on_gpu(100, static_cast<float>(i));
    co_yield one;
  }
}
float Gpu::ask(Handle<Gpu> other, Tensor tensor) const { return other.call<&Gpu::sum>(tensor).get(); }
int Gpu::same_memory(Handle<Gpu> other) const {
  float memory[6] = {};  // no driver is asked inside of a process
  auto owner = std::make_shared<int>();
  int good = 0;
  for (int i = 0; i < 10; ++i) {
    Tensor tensor = Tensor::over(memory, DType::f32, {2, 3}, {1, 2}, Device::cuda(0), owner);
    // The first call waits for its route, and those that may be retried are encoded; the others are not.
    auto options = i % 2 == 0 ? CallOptions().retries(1) : CallOptions();
    auto back = other.with(options).call<&Gpu::pass>(tensor).get();
    good += back.data() == memory && back.strides() == tensor.strides();
  }
  for (int i = 0; i < 500 && owner.use_count() > 1; ++i) std::this_thread::sleep_for(10ms);
  return owner.use_count() == 1 ? good : -1;
}
std::string Gpu::address(Tensor tensor) const {
  return std::to_string(reinterpret_cast<std::uintptr_t>(tensor.data()));
}
std::string Gpu::device(Tensor tensor) const { return to_string(tensor.device()); }
std::vector<int> Gpu::counts() const {
  auto counts = fake().counts();
  return {counts.allocations, counts.mappings, fake().opened};
}
std::uint64_t Gpu::in_use() const { return troupe::device_use(Device::cuda(0)).in_use; }
int Gpu::pid() const { return ::getpid(); }

namespace {

// Lines in /proc/*/maps and links in /proc/*/fd of fake memory with this scene's mark, in all processes.
int traces(const char* what) {
  std::string mark = std::string("memfd:fake-") + std::getenv("TROUPE_FAKE_DEVICES");
  mark.resize(mark.find(','));
  mark.pop_back();  // of all devices
  int found = 0;
  std::error_code bad;
  for (const auto& process : std::filesystem::directory_iterator("/proc", bad)) {
    if (process.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    if (std::string(what) == "maps") {
      std::ifstream in(process.path() / "maps");
      for (std::string line; std::getline(in, line);) found += line.find(mark) != line.npos;
    } else {
      for (std::filesystem::directory_iterator at(process.path() / "fd", bad), end; !bad && at != end;
           at.increment(bad))
        found += std::filesystem::read_symlink(at->path(), bad).string().find(mark) != std::string::npos;
      bad.clear();
    }
  }
  return found;
}

void nothing_of_devices_is_left() {
  auto count = [] { return traces("maps") + traces("fd"); };
  eventually([&] { return count() == 0; }, std::to_string(traces("maps")) + " mappings and " +
                                               std::to_string(traces("fd")) + " descriptors left");
  eventually([] { return memory_field("objects") == 0; },
             "no objects; there are " + std::to_string(memory_field("objects")));
  auto own = fake().counts();
  check(own.allocations == 0 && own.mappings == 0, "nothing is counted here");
}

template <class F>
void wrong_device(F f, const std::string& what) {
  try {
    f();
  } catch (const troupe::WrongDevice& e) {
    check(e.error().message.find("to_cpu(tensor)") != std::string::npos, what + ": the remedy: " + e.what());
    return;
  } catch (const std::exception& e) {
    throw std::runtime_error(what + ": another exception: " + e.what());
  }
  throw std::runtime_error(what + ": WrongDevice was expected");
}

ActorOptions half() { return ActorOptions().cpus(0).gpus(0.5); }

void devices() {
  {
    auto a = troupe::spawn<Gpu>(half()), b = troupe::spawn<Gpu>(half());
    check(a.call<&Gpu::devices>().get() == 1 && troupe::device_count() == 2, "an actor sees its own");
    Tensor mine = on_gpu(1000, 2);
    check(a.call<&Gpu::sum>(mine).get() == 2000, "an argument");
    a.call<&Gpu::set>(mine, 3.0f).get();
    check(add(mine) == 3000, "the memory itself was passed");
    check(a.call<&Gpu::sum>(mine.slice(0, 10, 20)).get() == 30, "a view of it");
    check(b.call<&Gpu::sum>(mine.slice(0, 0, 1000, 2)).get() == 1500, "a view with gaps");
    auto back = a.call<&Gpu::pass>(mine).get();
    check(back.data() == mine.data(), "what comes back is what went");
    check(a.call<&Gpu::pass_later>(mine).get().data() == mine.data(), "from a coroutine");
    Tensor theirs = a.call<&Gpu::make>(500, 4).get();
    check(add(theirs) == 2000 && theirs.device() == Device::cuda(0), "a result");
    check(b.call<&Gpu::sum>(theirs).get() == 2000, "passed on");
    check(
        a.call<&Gpu::address>(theirs).get() == a.call<&Gpu::address>(a.call<&Gpu::pass>(theirs).get()).get(),
        "back at its maker it is its own memory");
    check(a.call<&Gpu::ask>(b, theirs).get() == 2000, "between actors");
    Batch batch{"b", {mine, Tensor(), theirs, full(3, 1)}, {{7, theirs.slice(0, 0, 5)}}};
    batch = a.call<&Gpu::turn>(batch).get();
    check(batch.tensors[3].data() == mine.data() && !batch.tensors[2].defined() &&
              add(batch.tensors[1]) == 2000 && batch.tensors[0].device().is_cpu() && add(batch.more[7]) == 20,
          "inside of structs");
    float sum = 0;
    for (auto& one : a.call<&Gpu::several>(20)) sum += add(one);
    check(sum == 19000, "in a stream");
    auto opened = b.call<&Gpu::counts>().get()[2];
    for (int i = 0; i < 5; ++i) {
      b.call<&Gpu::keep>(theirs.slice(0, i, i + 1)).get();
      b.call<&Gpu::keep>(theirs).get();
    }
    check(b.call<&Gpu::counts>().get()[2] == opened + 1, "an allocation is mapped once");
    check(b.call<&Gpu::sum_kept>().get() == 5 * 2004, "kept");
    batch = {};
    theirs.reset();
    check(b.call<&Gpu::sum_kept>().get() == 5 * 2004, "a holder keeps the memory");
    eventually([&] { return a.call<&Gpu::in_use>().get() == 2000; }, "which counts for its maker");
    check(b.call<&Gpu::in_use>().get() == 0, "and not for the holder");
    b.call<&Gpu::forget>().get();
    eventually([&] { return a.call<&Gpu::in_use>().get() == 0; }, "it goes with the last holder");
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          Tensor one = on_gpu(100, 1);
          good += a.call<&Gpu::sum>(one).get() == 100 && b.call<&Gpu::pass>(one).get().data() == one.data() &&
                  add(b.call<&Gpu::make>(10, 2).get()) == 20;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    check(good == 200, "several threads");
  }
  nothing_of_devices_is_left();
}

void device_errors() {
  {
    auto first = troupe::spawn<Gpu>(ActorOptions().gpus(1)),
         second = troupe::spawn<Gpu>(ActorOptions().gpus(1));
    auto none = troupe::spawn<Gpu>(ActorOptions());
    check(none.call<&Gpu::devices>().get() == 0, "an actor that asked for no GPU sees none");
    for (int i = 0; i < 3; ++i) {
      wrong_device([&] { none.call<&Gpu::sum>(on_gpu(100, 1)).get(); }, "an actor without a GPU");
      Tensor theirs = first.call<&Gpu::make>(100, 1).get();
      wrong_device([&] { second.call<&Gpu::sum>(theirs).get(); }, "an actor with another GPU");
      check(first.call<&Gpu::sum>(theirs).get() == 100, "and its own goes on");
      check(second.call<&Gpu::sum>(troupe::to_cpu(theirs)).get() == 100, "the remedy");
    }
    Tensor other = second.call<&Gpu::make>(100, 1).get();
    check(other.device() == Device::cuda(1), "this program sees both: " + to_string(other.device()));
    auto refused = failure_of([&] { first.call<&Gpu::ask>(second, on_gpu(10, 1)).get(); });
    check(refused.cause && refused.cause->kind == ErrorKind::wrong_device,
          "to an actor too: " + refused.describe());
    auto exceeded = failure_of([&] { first.call<&Gpu::make>(std::int64_t{1} << 20, 1).get(); });
    check(exceeded.cause && exceeded.cause->kind == ErrorKind::device_memory_exceeded,
          "a share: " + exceeded.describe());
    check(failure_of([&] { troupe::empty_on(Device::cuda(2), DType::u8, {1}); }).kind ==
              ErrorKind::wrong_device,
          "no such GPU");
    check(failure_of([&] { troupe::empty_on(Device::cuda(0), DType::u8, {1 << 22}); }).kind ==
              ErrorKind::device_memory_exceeded,
          "more than the card has");
    check(failure_of([&] { troupe::put(on_gpu(1, 1)); }).kind == ErrorKind::wrong_device, "put");
    check(failure_of([&] {
            troupe::put(Batch{"b", {on_gpu(1, 1)}, {}});
          }).kind == ErrorKind::invalid_argument,
          "put of a struct");
    // Memory that the driver does not export travels as elements.
    fake().fail_exports = 1;
    check(first.call<&Gpu::sum>(on_gpu(100, 5)).get() == 500, "not exported: copied");
    eventually([&] { return first.call<&Gpu::in_use>().get() == 0; }, "nothing is in use");
    check(second.call<&Gpu::sum>(full(3, 1)).get() == 3, "and the actors go on");
  }
  nothing_of_devices_is_left();
}

void devices_half() {
  auto one = troupe::spawn<Gpu>(half());
  check(one.call<&Gpu::make>((1 << 19) / 4, 1).get().defined(), "half of the card");
  auto exceeded = failure_of([&] { one.call<&Gpu::make>((1 << 19) / 4 + 1, 1).get(); });
  check(exceeded.cause && exceeded.cause->kind == ErrorKind::device_memory_exceeded &&
            exceeded.cause->message.find("its share is 524288 bytes") != std::string::npos,
        "and no more: " + exceeded.describe());
}

void devices_light() {
  auto a = troupe::spawn<Gpu>(ActorOptions().light()), b = troupe::spawn<Gpu>(ActorOptions().light());
  check(a.call<&Gpu::pid>().get() == b.call<&Gpu::pid>().get(), "both in one process");
  check(a.call<&Gpu::same_memory>(b).get() == 10, "inside of a process the pointer goes, encoded or not");
  wrong_device([&] { a.call<&Gpu::sum>(on_gpu(1, 1)).get(); }, "light actors see no GPU");
}

void devices_far() {
  {
    std::string there = troupe::nodes().back().name;
    auto far = troupe::spawn<Gpu>(ActorOptions().node(there).gpus(1));
    auto far_half = troupe::spawn<Gpu>(half().node(there)),
         other_half = troupe::spawn<Gpu>(half().node(there));
    auto none = troupe::spawn<Gpu>(ActorOptions().node(there));
    Tensor mine = on_gpu(1000, 2, 1);
    check(far.call<&Gpu::sum>(mine).get() == 2000, "an argument");
    check(far.call<&Gpu::sum>(mine.slice(0, 0, 1000, 3)).get() == 668, "a view with gaps");
    check(far.call<&Gpu::device>(mine).get() == "cuda:0", "on the receiver's first GPU");
    far.call<&Gpu::set>(mine, 9.0f).get();
    check(add(mine) == 2000, "a copy");
    Tensor back = far.call<&Gpu::pass>(mine).get();
    check(back.data() != mine.data() && back.device() == Device::cuda(0) && add(back) == 2000, "and back");
    Batch batch{"b", {mine, full(3, 1), Tensor(), mine.slice(0, 0, 7)}, {}};
    batch = far.call<&Gpu::turn>(batch).get();
    check(add(batch.tensors[3]) == 2000 && batch.tensors[2].device().is_cpu() && add(batch.tensors[0]) == 14,
          "in a struct");
    float sum = 0;
    for (auto& one : far.call<&Gpu::several>(10)) sum += add(one);
    check(sum == 4500, "in a stream");
    check(far.call<&Gpu::sum>(troupe::to_device(full(0, 1), Device::cuda(0))).get() == 0, "without elements");
    wrong_device([&] { none.call<&Gpu::sum>(mine).get(); }, "an actor without a GPU");
    check(far_half.call<&Gpu::ask>(other_half, mine).get() == 2000, "to a neighbour of the receiver");
    Tensor large = troupe::empty_on(Device::cuda(0), DType::f32, {17 << 20});
    auto refused = failure_of([&] { far.call<&Gpu::sum>(large).get(); });
    check(refused.kind == ErrorKind::invalid_argument, "above a message's limit: " + refused.describe());
    eventually([&] { return far.call<&Gpu::in_use>().get() == 0; }, "what came by copy is gone");
  }
  nothing_of_devices_is_left();
}

// Those who hold, have made or carry tensors are killed in the middle of it.
void devices_churn() {
  int kills = 200;
  if (const char* fewer = std::getenv("PROBE_KILLS")) kills = std::atoi(fewer);
  {
    auto stays = troupe::spawn<Gpu>(ActorOptions().cpus(0).gpus(0.25));
    Tensor shared = on_gpu(500, 1);
    stays.call<&Gpu::keep>(shared).get();
    int lost = 0, read = 0;
    for (int i = 0; i < kills; ++i) {
      auto options = ActorOptions().cpus(0).gpus(0.25).on_failure([](const troupe::ActorFailure&) {});
      auto one = troupe::spawn<Gpu>(options);
      int pid = one.call<&Gpu::pid>().get();
      one.tell<&Gpu::keep>(shared);
      auto made = one.call<&Gpu::make>(100, 3);
      auto asked = one.call<&Gpu::ask>(stays, shared);
      auto stream = one.call<&Gpu::several>(5);
      Tensor theirs;
      try {
        if (i % 3 != 0) theirs = made.get();
      } catch (const troupe::Failure&) {
      }
      ::kill(pid, SIGKILL);
      try {
        asked.get();
      } catch (const troupe::Failure&) {
      }
      if (!theirs.defined()) continue;
      // The maker is dead: its memory can be read, or is a typed error, also when it is passed on.
      try {
        check(stays.call<&Gpu::sum>(theirs).get() == 300, "what is read is right");
        ++read;
      } catch (const troupe::ObjectLost&) {
        ++lost;
      }
    }
    check(stays.call<&Gpu::sum_kept>().get() == 500 && add(shared) == 500, "what was shared is whole");
    // Long after a maker's death its tensors are lost.
    auto last =
        troupe::spawn<Gpu>(ActorOptions().cpus(0).gpus(0.25).on_failure([](const troupe::ActorFailure&) {}));
    Tensor theirs = last.call<&Gpu::make>(100, 3).get();
    check(add(theirs) == 300, "alive");
    ::kill(last.call<&Gpu::pid>().get(), SIGKILL);
    eventually(
        [&] {
          try {
            (void)troupe::to_cpu(theirs);
            return false;
          } catch (const troupe::ObjectLost&) {
            return true;
          }
        },
        "a tensor is lost with its maker");
    try {
      stays.call<&Gpu::sum>(theirs).get();
      check(false, "a lost tensor was passed on");
    } catch (const troupe::ObjectLost&) {
    }
    stays.call<&Gpu::forget>().get();
  }
  nothing_of_devices_is_left();
}

}  // namespace

const std::map<std::string, std::function<void()>>& device_cases() {
  static const std::map<std::string, std::function<void()>> cases{
      {"devices", devices},           {"device_errors", device_errors},
      {"devices_half", devices_half}, {"devices_light", devices_light},
      {"devices_far", devices_far},   {"devices_churn", devices_churn},
  };
  return cases;
}

}  // namespace probe
