// Making actors, and what an idle one weighs.
#include <thread>

#include "tools/bench/actors.h"
#include "tools/bench/harness.h"
#include "tools/bench/processes.h"

namespace troupe::bench {
namespace {

// Creates n actors with one call each; actors a second, until all calls were answered. They are ended
// afterwards.
double spawn_rate(int n, const ActorOptions& options) {
  std::vector<Handle<Echo>> actors;
  std::vector<Future<int>> answers;
  double begin = seconds_now();
  for (int i = 0; i < n; ++i) {
    actors.push_back(spawn<Echo>(options));
    answers.push_back(actors.back().call<&Echo::add>(1));
  }
  for (auto& answer : answers) answer.get();
  double rate = n / (seconds_now() - begin);
  std::vector<Future<void>> ends;
  for (auto& actor : actors) ends.push_back(actor.kill());
  when_all(std::move(ends)).get();
  return rate;
}

double memory_per_actor() {
  constexpr int kActors = 20'000;
  static std::vector<Handle<Echo>> kept;
  auto make = [](int n) {
    std::vector<Future<int>> answers;
    for (int i = 0; i < n; ++i) {
      kept.push_back(spawn<Echo>(ActorOptions().light()));
      answers.push_back(kept.back().call<&Echo::add>(1));
    }
    for (auto& answer : answers) answer.get();
  };
  kept.reserve(4 * kActors);
  make(1000);  // links, pools and buffers are there
  double before = pss_bytes();
  make(kActors);
  return (pss_bytes() - before) / kActors;
}

double idle_cpu() {
  static std::vector<Handle<Echo>> kept;
  if (kept.empty()) {
    std::vector<Future<int>> answers;
    for (int i = 0; i < 1000; ++i) {
      kept.push_back(spawn<Echo>(ActorOptions().light()));
      answers.push_back(kept.back().call<&Echo::add>(1));
    }
    for (auto& answer : answers) answer.get();
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  double begin = seconds_now(), used = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  return (cpu_seconds() - used) / (seconds_now() - begin) * 100;
}

// The slowest of status, list and kill, in ms, while the actor spins with a full mailbox.
double busy_control() {
  static int round = 0;
  std::string name = "bench-busy-" + std::to_string(++round);
  auto busy = spawn<Echo>(ActorOptions().name(name));
  busy.ready().get();
  std::vector<Future<void>> queued;
  for (int i = 0; i < 1000; ++i) queued.push_back(busy.call<&Echo::spin>(1.0));
  double slowest = 0;
  auto timed = [&](auto ask) {
    double begin = seconds_now();
    ask();
    slowest = std::max(slowest, (seconds_now() - begin) * 1e3);
  };
  for (int i = 0; i < 20; ++i) {
    timed([] { nodes(); });
    timed([&] { find<Echo>(name); });
  }
  timed([&] { busy.kill().get(); });
  for (auto& future : queued) {
    try {
      future.get();
    } catch (const Failure&) {
    }
  }
  return slowest * 1e3;
}

// Creates and kills 100,000 light actors with ten calls each: growth of head and agents after the first
// fifth, in per cent.
double churn() {
  constexpr int kRound = 1000, kWarm = 20, kRounds = 100;
  auto round = [] {
    std::vector<Handle<Echo>> actors;
    std::vector<Future<int>> answers;
    for (int i = 0; i < kRound; ++i) {
      actors.push_back(spawn<Echo>(ActorOptions().light()));
      for (int call = 0; call < 10; ++call) answers.push_back(actors.back().call<&Echo::add>(1));
    }
    for (auto& answer : answers) answer.get();
    std::vector<Future<void>> ends;
    for (auto& actor : actors) ends.push_back(actor.kill());
    when_all(std::move(ends)).get();
  };
  for (int i = 0; i < kWarm; ++i) round();
  double before = pss_bytes(cluster_processes("troupe"));
  for (int i = kWarm; i < kRounds; ++i) round();
  return (pss_bytes(cluster_processes("troupe")) / before - 1) * 100;
}

}  // namespace

std::vector<Case> spawn_cases() {
  return {
      {"spawn_light",
       "1/s",
       "light actors created with one call each, durable",
       [] { return spawn_rate(5000, ActorOptions().light()); },
       {}},
      {"spawn_process", "1/s", "actors with a process of their own, created with one call each",
       [] { return spawn_rate(200, ActorOptions()); }, start_and_reap_rate},
  };
}

std::vector<Case> rest_cases() {
  Case memory{"memory_per_actor",
              "bytes",
              "idle light actor: growth of all processes of the cluster",
              memory_per_actor,
              {}};
  memory.runs = 3;
  Case idle{"idle_cpu", "%", "cluster at rest with 1,000 connected actors", idle_cpu, {}};
  idle.runs = 3;
  Case busy{"busy_control",
            "µs",
            "slowest of list, find and kill while an actor spins with 1,000 calls queued",
            busy_control,
            {}};
  busy.runs = 3;
  Case growth{"churn", "%", "growth of head and agents while 100,000 light actors come and go", churn, {}};
  growth.runs = 1;
  return {memory, idle, busy, growth};
}

}  // namespace troupe::bench
