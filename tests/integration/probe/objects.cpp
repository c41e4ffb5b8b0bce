#include "objects.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "check.h"

namespace probe {

using namespace std::chrono_literals;
using troupe::ActorOptions;
using troupe::Handle;
using troupe::Tensor;

namespace {

std::uint64_t add(std::span<const std::uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

int count_descriptors(const std::string& process) {
  int n = 0;
  std::error_code bad;
  for (std::filesystem::directory_iterator at("/proc/" + process + "/fd", bad), end; !bad && at != end;
       at.increment(bad))
    ++n;
  return n;
}

}  // namespace

Bytes Keeper::make(std::uint64_t value, int count) {
  return troupe::put(std::vector<std::uint64_t>(static_cast<std::size_t>(count), value));
}
Bytes Keeper::doubled(const Bytes& object) const {
  auto there = object.get();
  std::vector<std::uint64_t> out(there->begin(), there->end());
  for (auto& one : out) one *= 2;
  return troupe::put(out);
}
std::uint64_t Keeper::sum(const Bytes& object) const { return add(*object.get()); }
std::uint64_t Keeper::sum_all(const std::vector<Bytes>& objects) const {
  std::uint64_t all = 0;
  for (const auto& one : objects) all += add(*one.get());
  return all;
}
std::uint64_t Keeper::sum_kept() const { return sum_all(kept_); }
troupe::Task<std::uint64_t> Keeper::await_sum(Bytes object) {
  auto there = co_await object;
  co_return add(*there);
}
troupe::Generator<Bytes> Keeper::several(int n) {
  for (int i = 0; i < n; ++i) {
    Bytes one = make(static_cast<std::uint64_t>(i), 1000);
    co_yield one;
  }
}
std::uint64_t Keeper::ask(Handle<Keeper> other, Bytes object) const {
  return other.call<&Keeper::sum>(object).get();
}
std::vector<std::uint64_t> Keeper::big(int count) const {
  std::vector<std::uint64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}
float Keeper::total(Tensor tensor) const {
  float all = 0;
  for (float one : tensor.span<float>()) all += one;
  return all;
}
Tensor Keeper::twice(Tensor tensor) const {
  for (float& one : tensor.span<float>()) one *= 2;
  return tensor;
}
float Keeper::kept_total() const {
  float all = 0;
  for (const Tensor& one : tensors_) all += total(one);
  return all;
}
void Keeper::give_tensors(Handle<Keeper> to, int count, float value) const {
  std::vector<troupe::Future<void>> given;
  for (int i = 0; i < count; ++i)
    given.push_back(to.call<&Keeper::keep_tensor>(Tensor::from(std::vector<float>(1 << 16, value))));
  for (auto& one : given) one.get();
}
std::string Keeper::text(troupe::ObjectRef<std::string> object) const { return std::string(*object.get()); }
int Keeper::pid() const { return ::getpid(); }
int Keeper::descriptors() const { return count_descriptors("self"); }

namespace {

void nothing_is_left(std::uint64_t objects = 0) {
  eventually([&] { return memory_field("objects") == objects; },
             std::to_string(objects) + " objects; there are " + std::to_string(memory_field("objects")));
  if (objects == 0) {
    eventually([&] { return memory_field("used") == 0; }, "no memory is in use");
    eventually([&] { return memory_field("spilled") == 0; }, "nothing is on disk");
  }
}

std::vector<std::uint64_t> ones(std::size_t n) { return std::vector<std::uint64_t>(n, 1); }

void objects(ActorOptions options) {
  {
    auto a = troupe::spawn<Keeper>(options), b = troupe::spawn<Keeper>(options);
    auto ref = troupe::put(ones(100'000));
    check(ref.size() == 800'000 && add(*ref.get()) == 100'000, "put and get in one process");
    check(ref.get()->data() == ref.get()->data(), "without a copy");
    check(a.call<&Keeper::sum>(ref).get() == 100'000, "an argument");
    check(a.call<&Keeper::await_sum>(ref).get() == 100'000, "co_await");
    auto made = a.call<&Keeper::make>(3, 5).get();
    check(add(*made.get()) == 15, "a result");
    check(b.call<&Keeper::sum>(made).get() == 15, "passed on");
    check(a.call<&Keeper::ask>(b, made).get() == 15, "between actors");
    check(b.call<&Keeper::sum_all>(std::vector<Bytes>{ref, made, ref}).get() == 200'015,
          "several in one argument");
    a.call<&Keeper::keep>(troupe::put(ones(7))).get();
    check(a.call<&Keeper::sum_kept>().get() == 7, "kept in an actor, dropped by its creator");
    check(add(*a.call<&Keeper::kept>().get().get()) == 7, "and given back");
    check(b.call<&Keeper::pass>(b.call<&Keeper::pass>(made).get()).get() == made, "there and back");
    a.tell<&Keeper::keep>(made);
    check(a.call<&Keeper::sum_kept>().get() == 22, "in a one-way message");
    std::uint64_t sum = 0;
    auto stream = a.call<&Keeper::several>(100);
    for (auto& one : stream) sum += add(*one.get());
    check(sum == 1000 * 4950, "in a stream");
    auto dropped = a.call<&Keeper::several>(1000);
    dropped.next();
    auto text = troupe::put(std::string("some text"));
    check(*text.get() == "some text" && a.call<&Keeper::text>(text).get() == "some text", "a string");
    auto pairs = troupe::put(std::map<std::string, int>{{"a", 1}, {"b", 2}});
    check(pairs.get()->at("b") == 2, "an encoded type");
    auto tensor = Tensor::from(std::vector<float>(50'000, 0.5f), {50, 1000});
    auto stored = troupe::put(tensor.transpose());
    check(stored.get()->shape() == troupe::Dims{1000, 50} && stored.get()->view<float, 2>()(999, 49) == 0.5f,
          "a tensor");
    auto future = ref.future();
    check(add(*future.get()) == 100'000, "a future");
    check(troupe::put(std::vector<std::uint64_t>()).get()->empty(), "nothing at all");
    Bytes none;
    check(failure_of([&] { none.get(); }).kind == troupe::ErrorKind::invalid_argument, "no object");
    auto view = ref.get();
    ref = {};
    check(add(*view) == 100'000, "what is read stays");
    std::vector<Bytes> many;
    for (int i = 0; i < 2000; ++i) many.push_back(troupe::put(ones(static_cast<std::size_t>(i % 50))));
    check(b.call<&Keeper::sum_all>(many).get() == 2000 / 50 * 1225, "many small ones");
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          auto mine = troupe::put(ones(1000));
          good += b.call<&Keeper::sum>(mine).get() == 1000 &&
                  add(*b.call<&Keeper::pass>(mine).get().get()) == 1000;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    check(good == 400, "several threads");
    a.call<&Keeper::forget>().get();
  }
  nothing_is_left();
}

void bulk(ActorOptions options) {
  {
    auto a = troupe::spawn<Keeper>(options);
    troupe::put(ones(1));
    auto big = a.call<&Keeper::big>(1'000'000).get();
    check(big.size() == 1'000'000 && big[999'999] == 999'999, "a result of 8 MB");
    auto tensor = Tensor::from(std::vector<float>(1 << 20, 1.0f));
    for (int i = 0; i < 50; ++i) {
      check(a.call<&Keeper::total>(tensor).get() == 1 << 20, "a tensor as argument");
      auto doubled = a.call<&Keeper::twice>(tensor).get();
      check(doubled.span<float>()[12345] == 2.0f && tensor.span<float>()[12345] == 1.0f,
            "a tensor back, changed in place");
      doubled.span<float>()[0] = 7;  // it is this process's own
    }
    check(a.call<&Keeper::total>(tensor.slice(0, 0, 100)).get() == 100, "a small one");
    auto large = Tensor::zeros(troupe::DType::f32, {30 << 20});
    check(a.call<&Keeper::total>(large).get() == 0, "one above a frame's limit");
  }
  nothing_is_left();
}

// Processes that hold, made or carry objects are killed; nothing of theirs is left, and what others hold
// stays.
void objects_killed() {
  {
    auto stays = troupe::spawn<Keeper>(ActorOptions());
    auto expected = ActorOptions().on_failure([](const troupe::ActorFailure&) {});
    auto creator = troupe::spawn<Keeper>(expected);
    auto outlives = creator.call<&Keeper::make>(2, 1000).get();
    stays.call<&Keeper::keep>(creator.call<&Keeper::make>(5, 10).get()).get();
    ::kill(creator.call<&Keeper::pid>().get(), SIGKILL);
    check(failure_of([&] {
            for (;;) creator.call<&Keeper::pid>().get();
          }).kind == troupe::ErrorKind::actor_died,
          "the creator is dead");
    check(add(*outlives.get()) == 2000, "an object outlives its creator");
    check(stays.call<&Keeper::sum_kept>().get() == 50, "also in another process");
    auto holder = troupe::spawn<Keeper>(expected);
    holder.call<&Keeper::keep>(outlives).get();
    auto only = troupe::put(ones(100));
    holder.call<&Keeper::keep>(only).get();
    only = {};
    std::uint64_t before = memory_field("objects");
    ::kill(holder.call<&Keeper::pid>().get(), SIGKILL);
    nothing_is_left(before - 1);
    check(add(*outlives.get()) == 2000, "others still hold it");
    stays.call<&Keeper::forget>().get();
  }
  nothing_is_left();
}

// Tensors that came with messages stay what they were: while their sender sends others, and when it has died.
void tensors_kept() {
  constexpr float kEach = 1 << 16;
  {
    auto expected = ActorOptions().on_failure([](const troupe::ActorFailure&) {});
    auto keeper = troupe::spawn<Keeper>(ActorOptions()), other = troupe::spawn<Keeper>(ActorOptions());
    for (int kept : {1, 5, 8, 9, 30}) {
      auto giver = troupe::spawn<Keeper>(expected);
      giver.call<&Keeper::give_tensors>(keeper, kept, 1.0f).get();
      for (int i = 0; i < 3; ++i) {
        giver.call<&Keeper::give_tensors>(other, 20, 2.0f).get();
        other.call<&Keeper::forget_tensors>().get();
        giver.call<&Keeper::total>(Tensor::from(std::vector<float>(1 << 16, 3.0f))).get();
      }
      check(keeper.call<&Keeper::kept_total>().get() == static_cast<float>(kept) * kEach, "while others go");
      ::kill(giver.call<&Keeper::pid>().get(), SIGKILL);
      check(failure_of([&] {
              for (;;) giver.call<&Keeper::pid>().get();
            }).kind == troupe::ErrorKind::actor_died,
            "the giver is dead");
      // Its memory goes to others.
      for (int round = 0; round < 40; ++round) {
        auto next = troupe::spawn<Keeper>(expected);
        next.call<&Keeper::give_tensors>(other, 20, 4.0f).get();
        other.call<&Keeper::forget_tensors>().get();
        if (round % 8 == 0) ::kill(next.call<&Keeper::pid>().get(), SIGKILL);
        check(keeper.call<&Keeper::kept_total>().get() == static_cast<float>(kept) * kEach,
              "after the giver's death");
        next.kill().get();
      }
      keeper.call<&Keeper::forget_tensors>().get();
    }
    // Killed with what it has got: the memory comes back.
    for (int i = 0; i < 30; ++i) {
      auto taker = troupe::spawn<Keeper>(expected);
      auto giver = troupe::spawn<Keeper>(expected);
      giver.call<&Keeper::give_tensors>(taker, 12, 1.0f).get();
      auto mine = Tensor::from(std::vector<float>(1 << 16, 1.0f));
      for (int n = 0; n < 12; ++n) taker.call<&Keeper::keep_tensor>(mine).get();
      auto back = taker.call<&Keeper::twice>(mine).get();
      ::kill(taker.call<&Keeper::pid>().get(), SIGKILL);
      check(back.span<float>()[77] == 2, "a result outlives its sender");
      giver.kill().get();
    }
  }
  nothing_is_left();
}

// Again and again a process dies in the middle of passing objects around.
void objects_churn() {
  int kills = 1000;
  if (const char* fewer = std::getenv("PROBE_KILLS")) kills = std::atoi(fewer);
  auto agent = std::to_string(troupe::nodes().front().pid);
  int before = 0, own = 0;
  {
    auto shared = troupe::put(ones(5000));
    auto stays = troupe::spawn<Keeper>(ActorOptions());
    stays.call<&Keeper::keep>(shared).get();
    before = count_descriptors(agent);
    own = count_descriptors("self");
    for (int i = 0; i < kills; ++i) {
      auto one = troupe::spawn<Keeper>(ActorOptions().on_failure([](const troupe::ActorFailure&) {}));
      int pid = one.call<&Keeper::pid>().get();
      one.tell<&Keeper::keep>(shared);
      auto made = one.call<&Keeper::make>(1, 3000);
      auto passed = one.call<&Keeper::ask>(stays, shared);
      auto stream = one.call<&Keeper::several>(10);
      if (i % 3 != 0) made.get();
      ::kill(pid, SIGKILL);
      try {
        passed.get();
      } catch (const troupe::Failure&) {
      }
    }
    check(stays.call<&Keeper::sum_kept>().get() == 5000, "what was shared is whole");
    check(add(*shared.get()) == 5000, "here as well");
    stays.call<&Keeper::forget>().get();
  }
  nothing_is_left();
  eventually([&] { return memory_field("processes") <= 3; }, "dead processes are detached");
  eventually([&] { return count_descriptors(agent) <= before + 8; },
             "the agent keeps no descriptors: " + std::to_string(before) + " before, " +
                 std::to_string(count_descriptors(agent)) + " now");
  eventually(
      [&] { return count_descriptors("self") <= own + 8; },
      "nor does this process: " + std::to_string(own) + ", " + std::to_string(count_descriptors("self")));
}

// On a node with 64 MiB of object memory and 64 MiB of disk: spilling, back-pressure, the end of both.
void objects_spill() {
  constexpr std::size_t kWords = (8 << 20) / 8;
  {
    std::vector<Bytes> all;
    for (std::uint64_t i = 0; i < 14; ++i) all.push_back(troupe::put(std::vector<std::uint64_t>(kWords, i)));
    check(memory_field("spills") > 0, "objects were spilled");
    auto a = troupe::spawn<Keeper>(ActorOptions());
    for (std::uint64_t i = 0; i < 14; ++i) {
      check(add(*all[i].get()) == i * kWords, "and come back");
      check(a.call<&Keeper::sum>(all[i]).get() == i * kWords, "also in another process");
    }
    check(memory_field("restores") > 0, "from disk");
    auto full = failure_of([&] {
      for (int i = 0; i < 20; ++i) all.push_back(troupe::put(ones(kWords)));
    });
    check(full.kind == troupe::ErrorKind::object_store_full, "both are full: " + full.describe());
    check(full.message.find("--object-disk") != full.message.npos, full.message);
    check(failure_of([&] { troupe::put(ones(16 << 20)); }).kind == troupe::ErrorKind::object_store_full,
          "larger than the memory");
    all.resize(4);
    check(add(*troupe::put(ones(kWords)).get()) == kWords, "there is room again");
    // All of the memory is being read: a put waits until its limit.
    all.clear();
    std::vector<troupe::Object<std::vector<std::uint64_t>>> views;
    for (int i = 0; i < 7; ++i) views.push_back(troupe::put(ones(kWords)).get());
    check(failure_of([&] { troupe::put(ones(2 * kWords), 300ms); }).kind ==
              troupe::ErrorKind::object_store_full,
          "a put waits to its limit");
    std::thread later([&] {
      std::this_thread::sleep_for(200ms);
      views.clear();
    });
    check(add(*troupe::put(ones(2 * kWords)).get()) == 2 * kWords, "a put waits for room");
    later.join();
  }
  nothing_is_left();
}

// References between two nodes: held there, they keep an object here.
void objects_two_nodes() {
  auto far = troupe::spawn<Keeper>(ActorOptions().node(troupe::nodes().back().name));
  {
    auto ref = troupe::put(ones(1000));
    check(far.call<&Keeper::pass>(ref).get() == ref, "there and back");
    far.call<&Keeper::keep>(ref).get();
    ref = {};
    std::this_thread::sleep_for(200ms);
    auto again = far.call<&Keeper::kept>().get();
    check(add(*again.get()) == 1000, "kept on another node");
    far.call<&Keeper::forget>().get();
  }
  nothing_is_left();
  far.call<&Keeper::keep>(troupe::put(ones(10))).get();
  far.kill().get();
  nothing_is_left();
}

int parent_of(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("PPid:", 0) == 0) return std::stoi(line.substr(5));
  }
  return 0;
}

// Objects are fetched by other nodes, many at once, in both directions; one whose node is killed is lost.
void objects_far() {
  std::vector<Handle<Keeper>> keepers;
  auto options = ActorOptions().on_failure([](const troupe::ActorFailure&) {});  // one dies with its node
  for (const auto& node : troupe::nodes()) keepers.push_back(troupe::spawn<Keeper>(options.node(node.name)));
  std::vector<std::uint64_t> numbers(4'000'000);
  std::iota(numbers.begin(), numbers.end(), 1);
  std::uint64_t right = add(numbers);
  auto near = troupe::put(numbers);
  auto all_read = [&](const Bytes& object, std::uint64_t sum, std::size_t readers) {
    std::vector<troupe::Future<std::uint64_t>> sums;
    for (std::size_t i = 0; i < readers; ++i) sums.push_back(keepers[i].call<&Keeper::sum>(object));
    for (auto& one : sums) check(one.get() == sum, "the bytes on another node");
  };
  all_read(near, right, keepers.size());
  auto far = keepers.back().call<&Keeper::make>(7, 3'000'000).get();
  check(add(*far.get()) == 21'000'000, "an object of another node");
  all_read(far, 21'000'000, keepers.size());

  int agent = parent_of(parent_of(keepers.back().call<&Keeper::pid>().get()));
  check(agent > 1 && ::kill(agent, SIGKILL) == 0, "the agent of the far node");
  eventually(
      [&] {
        try {
          (void)far.get();
          return false;
        } catch (const troupe::ObjectLost&) {
          return true;
        }
      },
      "an object is lost with its node");
  all_read(near, right, keepers.size() - 1);
  near = far = {};
  nothing_is_left();
}

// What its caller allows to be made again is, with what it was made from, on another node.
void objects_again() {
  // Each fills a node.
  std::vector<Handle<Keeper>> all;
  for (std::size_t i = 0; i < troupe::nodes().size(); ++i)
    all.push_back(troupe::spawn<Keeper>(ActorOptions().cpus(8).max_restarts(-1)));
  int last = troupe::nodes().back().pid;
  auto agent_of = [](Handle<Keeper>& one) { return parent_of(parent_of(one.call<&Keeper::pid>().get())); };
  std::size_t at = 0;
  while (agent_of(all[at]) != last) ++at;
  auto maker = all[at], other = all[at == 0 ? 1 : 0];
  for (auto& one : all) {
    if (one != maker && one != other) one.kill().get();
  }
  auto again = troupe::CallOptions().recompute(2);
  auto made = maker.with(again).call<&Keeper::make>(3, 100'000).get();
  auto twice = maker.with(again).call<&Keeper::doubled>(made).get();
  auto plain = maker.call<&Keeper::make>(4, 1000).get();
  auto first = twice.id();
  check(add(*twice.get()) == 600'000, "made once");
  check(::kill(last, SIGKILL) == 0, "the node of both");
  check(failure_of([&] {
          for (;;) (void)plain.get();
        }).kind == troupe::ErrorKind::object_lost,
        "one that may not be made again is lost");
  check(add(*twice.get()) == 600'000, "made again, with its source");
  check(twice.id() != first, "as another object");
  check(other.call<&Keeper::sum>(twice).get() == 600'000, "which goes where references go");
  std::vector<troupe::Future<troupe::Object<std::vector<std::uint64_t>>>> many;
  for (int i = 0; i < 10; ++i) many.push_back((i % 2 == 0 ? made : twice).future());
  for (int i = 0; i < 10; ++i)
    check(add(*many[static_cast<std::size_t>(i)].get()) == (i % 2 == 0 ? 300'000u : 600'000u),
          "for all readers");
}

}  // namespace

const std::map<std::string, std::function<void()>>& object_cases() {
  static const std::map<std::string, std::function<void()>> cases{
      {"objects", [] { objects(ActorOptions()); }},
      {"objects_light", [] { objects(ActorOptions().light()); }},
      {"objects_bulk", [] { bulk(ActorOptions()); }},
      {"objects_killed", objects_killed},
      {"objects_churn", objects_churn},
      {"objects_spill", objects_spill},
      {"objects_two_nodes", objects_two_nodes},
      {"objects_far", objects_far},
      {"objects_again", objects_again},
      {"tensors_kept", tensors_kept},
  };
  return cases;
}

}  // namespace probe
