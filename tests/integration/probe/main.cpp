// The driver of the integration tests: `probe CASE` checks one thing on the cluster it is given, prints
// "probe: ok" and ends with status 0, or says what was wrong and ends with status 1.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "actors.h"
#include "check.h"
#include "devices.h"
#include "durable.h"
#include "group.h"
#include "objects.h"
#include "store.h"

namespace probe {
namespace {

using namespace std::chrono_literals;
using troupe::ActorOptions;
using troupe::CallOptions;

void api(ActorOptions options) {
  auto a = troupe::spawn<Worker>(options, 5);
  auto b = troupe::spawn<Worker>(options);
  check(a.call<&Worker::add>(3).get() == 8, "add");
  check(a.call<&Worker::total>().get() == 8, "const noexcept method");
  check(a.call<&Worker::base>(1).get() == 1001, "base-class method");
  check(a.call<troupe::overload<int(int)>(&Worker::over)>(7).get() == 7, "overload by int");
  check(a.call<troupe::overload<int(const std::string&) const>(&Worker::over)>("four").get() == 4,
        "overload by text");
  Point p = a.call<&Worker::swap>(Point{1, 2, "p"}, std::make_unique<int>(10)).get();
  check(p.x == 2 && p.y == 11 && p.label == "p", "aggregate and move-only argument");
  std::map<std::string, std::vector<Point>> nested{{"k", {{1, 2, "a"}, {3, 4, "b"}}}};
  check(a.call<&Worker::nested>(nested).get()["k"][1].label == "b", "nested containers");
  check(a.call<&Worker::forward>(b, 2).get() == 2, "a method that returns a future");
  check(a.call<&Worker::twice>(b, 1).get() == 3 + 4, "a coroutine method");
  check(a.call<&Worker::block_on>(b, 6).get() == 10, "a method that blocks on another actor");
  for (int i = 0; i < 500; ++i) a.tell<&Worker::append>(i);
  auto order = a.call<&Worker::order>().get();
  check(order.size() == 500, "one-way messages arrive");
  for (int i = 0; i < 500; ++i)
    check(order[static_cast<std::size_t>(i)] == i, "calls of a handle keep their order");
  auto doubled = a.call<&Worker::total>().then([](int n) { return n * 2; });
  check(doubled.get() == 16, "then");
  std::vector<troupe::Future<int>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(b.call<&Worker::add>(0));
  check(troupe::when_all(std::move(many)).get().size() == 1000, "when_all");
  auto [left, right] = troupe::when_all(a.call<&Worker::total>(), b.call<&Worker::echo>("x")).get();
  check(left == 8 && right == "x", "when_all of different types");
  std::vector<troupe::Future<int>> race;
  race.push_back(a.call<&Worker::total>());
  race.push_back(b.call<&Worker::total>());
  check(troupe::when_any(std::move(race)).get().index < 2, "when_any");
  int sum = 0;
  auto stream = a.call<&Worker::count>(1000);
  for (int& item : stream) sum += item;
  check(sum == 499'500, "a stream");
  auto slow = a.call<&Worker::count>(10'000);
  check(slow.next() == 0, "first item");
  check(a.call<&Worker::produced>().get() <= static_cast<int>(2 * troupe::kStreamWindow), "back-pressure");
  auto error = failure_of([&] { a.call<&Worker::fail>("too far").get(); });
  check(error.kind == troupe::ErrorKind::actor_error && error.type == "std::out_of_range" &&
            error.message == "too far",
        "an exception with type and message: " + error.describe());
  check(!error.backtrace.empty() && error.backtrace[0].find("fail") != std::string::npos,
        "a backtrace of the throw: " + (error.backtrace.empty() ? "none" : error.backtrace[0]));
  check(failure_of([&] { a.call<&Worker::circle>(a, b).get(); }).kind == troupe::ErrorKind::actor_error,
        "a cycle of blocking calls is an error");
  check(failure_of([&] { a.with(CallOptions().deadline(100ms)).call<&Worker::sleep_ms>(400).get(); }).kind ==
            troupe::ErrorKind::deadline_exceeded,
        "a deadline");
  auto waiting = a.call<&Worker::wait_for_cancel>(20'000);
  std::this_thread::sleep_for(50ms);  // so that it runs; either way it ends early
  waiting.cancel();
  check(failure_of([&] { waiting.get(); }).kind == troupe::ErrorKind::cancelled, "cancel");
  check(a.with(CallOptions().deadline(10s)).call<&Worker::total>().get() == 8,
        "the actor has seen the cancel");
  std::string big(1 << 20, 'b');
  check(a.call<&Worker::echo>(big).get() == big, "a big argument and result");
  check(failure_of([&] { a.call<&Worker::echo>(std::string(80 << 20, 'x')).get(); }).kind ==
            troupe::ErrorKind::invalid_argument,
        "an argument above the cap");
  check(a.call<&Worker::total>().get() == 8, "which leaves the link alive");
  std::vector<std::thread> threads;
  std::atomic<int> right_answers{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) right_answers += b.call<&Worker::add>(0).get() == 10;
    });
  }
  for (auto& thread : threads) thread.join();
  check(right_answers == 1200, "several threads of the driver");
}

void names() {
  auto first = troupe::spawn<Worker>(ActorOptions().name("one"), 1);
  check(failure_of([&] { troupe::spawn<Worker>(ActorOptions().name("one")); }).kind ==
            troupe::ErrorKind::already_exists,
        "a taken name");
  auto same = troupe::spawn<Worker>(ActorOptions().name("one").get_or_create());
  check(same == first && troupe::find<Worker>("one") == first, "get or create, find");
  check(failure_of([&] { troupe::find<Thrower>("one"); }).kind == troupe::ErrorKind::invalid_argument,
        "wrong class");
  check(failure_of([&] { troupe::find<Worker>("none"); }).kind == troupe::ErrorKind::not_found,
        "unknown name");
  first.kill().get();
  auto again = troupe::spawn<Worker>(ActorOptions().name("one"), 2);
  check(again.call<&Worker::total>().get() == 2, "a name is free after a kill");
  check(failure_of([&] { first.call<&Worker::total>().get(); }).kind == troupe::ErrorKind::actor_died,
        "a dead handle");
}

void resources() {
  auto nodes = troupe::nodes();
  check(nodes.size() == 2, "two nodes");
  auto gpu = [] { return ActorOptions().gpus(1); };
  std::vector<troupe::Handle<Worker>> whole;
  std::vector<std::string> seen;
  for (int i = 0; i < 4; ++i) whole.push_back(troupe::spawn<Worker>(gpu()));
  for (auto& w : whole) {
    std::string place = w.call<&Worker::where>().get() + ":" + w.call<&Worker::devices>().get();
    for (auto& other : seen) check(other != place, "a GPU slot given twice: " + place);
    seen.push_back(place);
  }
  auto fifth = troupe::spawn<Worker>(gpu());
  check(!fifth.ready().wait_for(300ms), "a fifth GPU actor waits");
  whole.back().kill().get();
  whole.pop_back();
  check(fifth.call<&Worker::add>(1).get() == 1, "and starts when a slot is free");
  fifth.kill().get();
  auto half = troupe::spawn<Worker>(ActorOptions().gpus(0.5));
  auto other_half = troupe::spawn<Worker>(ActorOptions().gpus(0.5));
  check(half.call<&Worker::devices>().get() == other_half.call<&Worker::devices>().get(),
        "two halves share a GPU");
  auto there = troupe::spawn<Worker>(ActorOptions().node(nodes.back().name));
  check(there.call<&Worker::where>().get() == nodes.back().name, "node affinity");
  auto never = troupe::spawn<Worker>(ActorOptions().gpus(64));
  auto error = failure_of([&] { never.call<&Worker::total>().get(); });
  check(error.kind == troupe::ErrorKind::infeasible, "infeasible: " + error.describe());
}

void restart(ActorOptions options) {
  auto w = troupe::spawn<Worker>(options.max_restarts(2), 7);
  w.call<&Worker::add>(1).get();
  int pid = w.call<&Worker::pid>().get();
  auto lost = w.call<&Worker::sleep_ms>(60'000);
  auto kept = w.with(CallOptions().retries(3)).call<&Worker::incarnation>();
  ::kill(pid, SIGKILL);
  check(kept.get() == 2, "a retried call is served by the next incarnation");
  auto error = failure_of([&] { lost.get(); });
  check(error.kind == troupe::ErrorKind::actor_died && error.message.find("SIGKILL") != std::string::npos,
        "a call in flight fails with the cause: " + error.describe());
  check(w.call<&Worker::total>().get() == 7, "made again with the same arguments");
  auto fragile = troupe::spawn<Worker>(ActorOptions());
  int fragile_pid = fragile.call<&Worker::pid>().get();
  ::kill(fragile_pid, SIGKILL);
  check(failure_of([&] {
          for (;;) fragile.call<&Worker::total>().get();
        }).kind == troupe::ErrorKind::actor_died,
        "without restarts it is dead");
}

void constructor() {
  auto t = troupe::spawn<Thrower>(ActorOptions(), "no good");
  auto error = failure_of([&] { t.call<&Thrower::never>().get(); });
  check(error.kind == troupe::ErrorKind::actor_died && error.describe().find("no good") != std::string::npos,
        "a constructor that throws: " + error.describe());
  auto light = troupe::spawn<Thrower>(ActorOptions().light(), "light no good");
  check(failure_of([&] { light.call<&Thrower::never>().get(); }).describe().find("light no good") !=
            std::string::npos,
        "and a light one");
  check(
      failure_of([] { troupe::spawn<Unlisted>(ActorOptions()); }).kind == troupe::ErrorKind::invalid_argument,
      "a class that was not listed");
  check(failure_of([] { ActorOptions().cpus(-1); }).kind == troupe::ErrorKind::invalid_argument,
        "negative resources");
  check(failure_of([] { ActorOptions().gpus(1.5); }).kind == troupe::ErrorKind::invalid_argument,
        "one and a half GPUs");
}

void light_blocking() {
  std::vector<troupe::Handle<Worker>> chain;
  for (int i = 0; i < 6; ++i) chain.push_back(troupe::spawn<Worker>(ActorOptions().light()));
  std::vector<troupe::Future<int>> answers;
  for (std::size_t i = 0; i + 1 < chain.size(); ++i)
    answers.push_back(chain[i].call<&Worker::block_on>(chain[i + 1], 1));
  for (auto& answer : answers) check(answer.get() >= 1, "light actors that block on each other's lanes");
}

void say(const std::string& text) {
  std::printf("probe: %s\n", text.c_str());
  std::fflush(stdout);
}

void supervision() {
  std::mutex mutex;
  std::string own, general;
  auto seen = [&](const std::string& in) {
    std::lock_guard lock(mutex);
    return in;
  };
  auto handled = troupe::spawn<Worker>(ActorOptions().on_failure([&](const troupe::ActorFailure& failure) {
    std::lock_guard lock(mutex);
    own = failure.class_name + ": " + failure.error.describe();
  }));
  ::kill(handled.call<&Worker::pid>().get(), SIGKILL);
  eventually([&] { return seen(own).find("SIGKILL") != std::string::npos; },
             "the actor's own handler: " + own);
  check(own.rfind("probe.Worker: ", 0) == 0, own);
  troupe::on_failure([&](const troupe::ActorFailure& failure) {
    std::lock_guard lock(mutex);
    general += failure.class_name + ";";
  });
  auto other = troupe::spawn<Worker>(ActorOptions().light());
  ::kill(other.call<&Worker::pid>().get(), SIGKILL);
  eventually([&] { return seen(general) == "probe.Worker;"; }, "the program's handler: " + general);
  troupe::on_failure(nullptr);
  auto killed = troupe::spawn<Worker>(ActorOptions());
  killed.kill().get();  // which is no failure
  auto asked = troupe::spawn<Worker>(ActorOptions());
  auto lost = asked.call<&Worker::sleep_ms>(60'000);
  auto parent = troupe::spawn<Worker>(ActorOptions().max_restarts(1));
  int child = parent.call<&Worker::owned>().get();
  ::kill(child, SIGKILL);
  eventually([&] { return parent.with(CallOptions().retries(3)).call<&Worker::incarnation>().get() == 2; },
             "an owner that deals with nothing fails too");
  parent.call<&Worker::deal_with_failures>().get();
  ::kill(parent.call<&Worker::owned>().get(), SIGKILL);
  eventually([&] { return parent.call<&Worker::failures>().get() == "probe.Worker;"; }, "an owner's handler");
  check(parent.call<&Worker::incarnation>().get() == 2, "and the owner goes on");
  asked.kill().get();
  check(failure_of([&] { lost.get(); }).kind == troupe::ErrorKind::actor_died, "a call to a killed actor");
}

// Does nothing about the failure of its actor's actor.
void careless() {
  auto parent = troupe::spawn<Worker>(ActorOptions());
  int child = parent.call<&Worker::owned>().get();
  say("careless");
  ::kill(child, SIGKILL);
  for (;;) ::pause();
}

// Leaves everything running and waits to be killed: prints the pids of its actors' processes.
void linger() {
  auto own = troupe::spawn<Worker>(ActorOptions());
  auto light = troupe::spawn<Worker>(ActorOptions().light());
  int child = own.call<&Worker::child>("sleep 1000").get();
  light.call<&Worker::child>("sleep 1000").get();
  std::printf("probe: lingering %d %d\n", own.call<&Worker::pid>().get(), child);
  std::fflush(stdout);
  for (;;) ::pause();
}

// An actor that uses more memory than it asked for ends with a typed error and begins again; its neighbour,
// which asked for nothing, goes on.
void memory() {
  auto greedy = troupe::spawn<Worker>(ActorOptions().memory(64 << 20).max_restarts(1));
  auto neighbour = troupe::spawn<Worker>(ActorOptions(), 1);
  check(greedy.call<&Worker::hold>(8, 0).get() == 8, "within what it asked for");
  check(neighbour.call<&Worker::hold>(200, 600).get() == 200, "it asked for nothing, so it may");
  auto failed = failure_of([&] { greedy.call<&Worker::hold>(1000, 120'000).get(); });
  check(failed.kind == troupe::ErrorKind::actor_died, "it ends: " + failed.describe());
  check(failed.cause && failed.cause->kind == troupe::ErrorKind::resource_exhausted,
        "the cause is its use of memory: " + failed.describe());
  check(greedy.call<&Worker::incarnation>().get() == 2 && greedy.call<&Worker::hold>(8, 0).get() == 8,
        "it begins again");
  check(neighbour.call<&Worker::incarnation>().get() == 1, "the neighbour goes on");
}

void output() {
  auto w = troupe::spawn<Worker>(ActorOptions());
  w.call<&Worker::print>(3).get();
  std::string line;
  std::getline(std::cin, line);  // until the test has seen the lines
}

// Waits for a line before it spawns: the test changes the executable meanwhile.
void wait_then_spawn() {
  std::printf("probe: waiting\n");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  auto w = troupe::spawn<Worker>(ActorOptions());
  auto error = failure_of([&] { w.call<&Worker::total>().get(); });
  check(error.describe().find("another build") != std::string::npos,
        "another executable: " + error.describe());
}

std::string whereabouts(const troupe::Handle<Worker>& actor) {
  auto patient = actor.with(CallOptions().retries(5));
  auto incarnation = patient.call<&Worker::incarnation>().get();
  return "incarnation " + std::to_string(incarnation) + " on " + patient.call<&Worker::where>().get() +
         " pid " + std::to_string(patient.call<&Worker::pid>().get());
}

// Tells, for each line of input, where its one actor is.
void drift() {
  auto actor = troupe::spawn<Worker>(ActorOptions().max_restarts(5));
  say(whereabouts(actor));
  for (std::string line; std::getline(std::cin, line) && line != "end";) say(whereabouts(actor));
}

// Goes on calling while the head dies and comes back. A line of input asks for a thing; each is answered with
// a line.
void outlive() {
  auto named = troupe::spawn<Worker>(ActorOptions().name("survivor").max_restarts(5), 1);
  auto light = troupe::spawn<Worker>(ActorOptions().light());
  auto lone = troupe::spawn<Worker>(ActorOptions());
  named.ready().get();
  lone.ready().get();
  std::atomic<long> calls{0};
  std::string trouble;
  std::jthread caller([&](std::stop_token stop) {
    try {
      while (!stop.stop_requested()) {
        check(light.call<&Worker::add>(1).get() == ++calls, "calls come once and in order");
        lone.call<&Worker::total>().get();
      }
    } catch (const std::exception& e) {
      trouble = e.what();
    }
  });
  say("survivor " + std::to_string(named.call<&Worker::pid>().get()));
  for (std::string line; std::getline(std::cin, line) && line != "end";) {
    if (line == "count") {
      long before = calls;
      while (calls < before + 100 && trouble.empty()) std::this_thread::sleep_for(1ms);
      check(trouble.empty(), trouble);
      say("calls go on");
    } else if (line == "incarnation") {
      say(whereabouts(named));
    } else if (line == "control") {
      check(troupe::find<Worker>("survivor") == named, "find");
      auto fresh = troupe::spawn<Worker>(ActorOptions(), 3);
      check(fresh.call<&Worker::total>().get() == 3, "a new actor");
      fresh.kill().get();
      auto error = failure_of([&] { fresh.call<&Worker::total>().get(); });
      check(error.kind == troupe::ErrorKind::actor_died, "kill: " + error.describe());
      auto late = troupe::spawn<Worker>(ActorOptions().light(), 4);
      check(late.call<&Worker::total>().get() == 4, "a new light actor");
      say("control is back");
    } else if (line == "kill") {
      named.kill().get();
      auto error = failure_of([&] { named.call<&Worker::total>().get(); });
      check(error.kind == troupe::ErrorKind::actor_died, "killed: " + error.describe());
      named = troupe::spawn<Worker>(ActorOptions().name("survivor"), 2);
      check(named.call<&Worker::total>().get() == 2, "the name is free");
      say("killed");
    }
  }
  caller.request_stop();
  caller.join();
  check(trouble.empty(), trouble);
}

// Does what it reads, until the end of its input: "spawn NAME CPU GPU RESTARTS NODE LIGHT DETACHED", "pid
// NAME".
void scenario() {
  std::map<std::string, troupe::Handle<Worker>> actors;
  say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string verb, name, node;
    double cpu = 0, gpu = 0;
    int restarts = 0, light = 0, detached = 0;
    in >> verb >> name >> cpu >> gpu >> restarts >> node >> light >> detached;
    try {
      if (verb == "spawn") {
        ActorOptions options;
        options.name(name).cpus(cpu).gpus(gpu).max_restarts(restarts);
        if (node != "-") options.node(node);
        if (light) options.light();
        if (detached) options.detached();
        actors.insert_or_assign(name, troupe::spawn<Worker>(options));
        say("spawned " + name);
      } else if (verb == "pid") {
        say("pid " + name + " " + std::to_string(actors.at(name).call<&Worker::pid>().get()));
      }
    } catch (const troupe::Failure& failure) {
      say("failed: " + failure.error().describe());
    }
  }
}

// With fault points that lose calls or replies: each call ends, and no result is wrong.
void lossy() {
  auto w = troupe::spawn<Worker>(ActorOptions().max_restarts(-1));
  int served = 0, failed = 0;
  while (served + failed < 30 && failed < 2) {
    try {
      check(w.call<&Worker::base>(served).get() == served + 1000, "a wrong answer");
      ++served;
    } catch (const troupe::Failure& failure) {
      check(failure.error().kind == troupe::ErrorKind::unavailable,
            "how it ends: " + failure.error().describe());
      ++failed;
    }
  }
  check(failed > 0, "the fault point did not fire");
}

const std::map<std::string, std::function<void()>> kCases = {
    {"api", [] { api(ActorOptions()); }},
    {"api_light", [] { api(ActorOptions().light()); }},
    {"names", names},
    {"resources", resources},
    {"restart", [] { restart(ActorOptions()); }},
    {"constructor", constructor},
    {"light_blocking", light_blocking},
    {"supervision", supervision},
    {"careless", careless},
    {"linger", linger},
    {"outlive", outlive},
    {"drift", drift},
    {"lossy", lossy},
    {"scenario", scenario},
    {"memory", memory},
    {"output", output},
    {"wait_then_spawn", wait_then_spawn},
};

}  // namespace
}  // namespace probe

namespace probe {
namespace {

using Start = std::function<std::unique_ptr<troupe::Runtime>()>;

// Leaves the cluster with calls in flight, again and again: each of them ends.
void leave(std::unique_ptr<troupe::Runtime> runtime, const Start& start, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    auto options = round % 2 ? ActorOptions().light() : ActorOptions();
    auto near = troupe::spawn<Worker>(options), far = troupe::spawn<Worker>(ActorOptions());
    if (round % 3 == 0) near.call<&Worker::total>().get();  // else they are on their way still
    std::vector<troupe::Future<int>> calls;
    for (int i = 0; i < 50; ++i) {
      calls.push_back(near.call<&Worker::add>(1));
      calls.push_back(far.call<&Worker::block_on>(near, 1).then([](int n) { return n; }));
    }
    runtime.reset();
    for (auto& call : calls) {
      check(call.ready(), "leaving ends the calls that are in flight");
      try {
        call.get();
      } catch (const troupe::Failure&) {
      }
    }
    runtime = start();
  }
}

}  // namespace
}  // namespace probe

int main(int argc, char** argv) {
  probe::install_fake_devices();  // workers too: they are this program
  probe::Start start = [=] {
    return std::make_unique<troupe::Runtime>(argc, argv,
                                             troupe::classes<probe::Worker, probe::Thrower, probe::Ledger,
                                                             probe::Member, probe::Keeper, probe::Gpu>);
  };
  try {
    auto runtime = start();
    auto cases = probe::kCases;
    for (const auto& one : probe::durable_cases()) cases.insert(one);
    for (const auto& one : probe::store_cases()) cases.insert(one);
    for (const auto& one : probe::group_cases()) cases.insert(one);
    for (const auto& one : probe::object_cases()) cases.insert(one);
    for (const auto& one : probe::device_cases()) cases.insert(one);
    cases["leave"] = [&] { probe::leave(std::move(runtime), start, argc > 2 ? std::atoi(argv[2]) : 20); };
    auto chosen = argc > 1 ? cases.find(argv[1]) : cases.end();
    if (chosen == cases.end()) {
      std::fprintf(stderr, "probe: no such case\n");
      return 2;
    }
    // By hand: probe durable_node ACTORS CALLS KILLS
    if (argc == 5) {
      probe::durable_size.actors = std::atoi(argv[2]);
      probe::durable_size.calls = std::atoi(argv[3]);
      probe::durable_size.kills = std::atoi(argv[4]);
    }
    chosen->second();
    std::printf("probe: ok\n");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "probe: %s\n", e.what());
    return 1;
  }
}
