#include "store.h"

#include <atomic>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "actors.h"
#include "check.h"
#include "durable.h"

namespace probe {
namespace {

using namespace std::chrono_literals;
using troupe::ActorOptions;
using troupe::CallOptions;

constexpr int kBurstThreads = 50, kBurstEach = 8;

void say(const std::string& text) {
  std::printf("probe: %s\n", text.c_str());
  std::fflush(stdout);
}

// Runs `work` again and again in a thread of its own, until it throws or is told to stop.
class Loop {
 public:
  explicit Loop(std::function<void()> work)
      : thread_([this, work = std::move(work)](std::stop_token stop) {
          try {
            while (!stop.stop_requested()) {
              work();
              ++rounds_;
            }
          } catch (const std::exception& e) {
            std::lock_guard lock(mutex_);
            trouble_ = e.what();
          }
        }) {}
  long rounds() const { return rounds_; }
  void check_well() {
    std::lock_guard lock(mutex_);
    check(trouble_.empty(), trouble_);
  }
  // Until so many rounds have begun and ended.
  void await(long more) {
    for (long until = rounds_ + 1 + more; rounds_ < until; std::this_thread::sleep_for(1ms)) check_well();
  }
  void stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    check_well();
  }

 private:
  std::atomic<long> rounds_{0};
  std::mutex mutex_;
  std::string trouble_;
  std::jthread thread_;
};

// A line of input asks for a thing; each is answered with a line: "calls" and "spawns" when some more have
// come through, "fast" and "slow" say how many are made,
// "try" is answered with what becomes of one spawn, "burst" after many at once, "check" when every
// acknowledged actor is there.
void mutate() {
  auto a = troupe::spawn<Worker>(ActorOptions()), b = troupe::spawn<Worker>(ActorOptions().light());
  a.ready().get();
  b.ready().get();
  int sum = 0;
  Loop calls([&] { check(a.call<&Worker::forward>(b, 2).get() == (sum += 2), "a call between actors"); });
  std::mutex mutex;
  std::vector<std::pair<std::string, troupe::Handle<Worker>>> made;
  std::atomic<long> tried{0}, acknowledged{0}, failed{0};
  std::string last_failure;
  int tries = 0;
  std::atomic<bool> fast{false};
  Loop spawns([&] {
    std::string name = "m" + std::to_string(tried++);
    try {
      auto actor = troupe::spawn<Worker>(ActorOptions().name(name).light());
      std::lock_guard lock(mutex);
      made.emplace_back(name, actor);
      ++acknowledged;
    } catch (const troupe::Failure& failure) {
      check(failure.error().kind == troupe::ErrorKind::unavailable, failure.error().describe());
      std::lock_guard lock(mutex);
      last_failure = failure.error().describe();
      ++failed;
    }
    if (!fast) std::this_thread::sleep_for(50ms);
  });
  say("mutating");
  for (std::string line; std::getline(std::cin, line) && line != "end";) {
    if (line == "calls") {
      calls.await(50);
      say("calls go on");
    } else if (line == "spawns") {
      long until = acknowledged + 10;
      while (acknowledged < until) {
        spawns.check_well();
        std::this_thread::sleep_for(1ms);
      }
      say("spawns go on");
    } else if (line == "fast" || line == "slow") {
      fast = line == "fast";
      say(line);
    } else if (line == "try") {
      try {
        // With a name, so that it waits for the answer of the head.
        (void)troupe::spawn<Worker>(ActorOptions().name("try" + std::to_string(tries++)).light());
        say("tried: spawned");
      } catch (const troupe::Failure& failure) {
        say("tried: " + failure.error().describe());
      }
    } else if (line == "burst") {
      std::atomic<int> done{0};
      {
        std::vector<std::jthread> threads;
        for (int t = 0; t < kBurstThreads; ++t) {
          threads.emplace_back([&, t] {
            try {
              for (int i = 0; i < kBurstEach; ++i, ++done)
                (void)troupe::spawn<Worker>(
                    ActorOptions().name("b" + std::to_string(t) + "-" + std::to_string(i)).light());
            } catch (const troupe::Failure& failure) {
              say("burst: " + failure.error().describe());
            }
          });
        }
      }
      say("burst of " + std::to_string(done) + " acknowledged");
    } else if (line == "check") {
      std::vector<std::pair<std::string, troupe::Handle<Worker>>> now;
      {
        std::lock_guard lock(mutex);
        now = made;
      }
      std::vector<troupe::Future<int>> answers;
      for (auto& [name, actor] : now) answers.push_back(actor.call<&Worker::total>());
      std::atomic<std::size_t> next{0}, wrong{0};
      {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 8; ++t) {
          threads.emplace_back([&] {
            for (std::size_t i; (i = next++) < now.size();) {
              try {
                if (troupe::find<Worker>(now[i].first) == now[i].second) continue;
                say(now[i].first + " is another one");
              } catch (const troupe::Failure& failure) {
                say(now[i].first + ": " + failure.error().describe());
              }
              ++wrong;
            }
          });
        }
      }
      for (auto& answer : answers) check(answer.get() == 0, "it does not answer");
      check(wrong == 0, std::to_string(wrong) + " acknowledged actors are not there");
      say("all " + std::to_string(now.size()) + " are there");
    }
  }
  spawns.stop();
  calls.stop();
  say("acknowledged " + std::to_string(acknowledged) + ", failed " + std::to_string(failed) +
      (last_failure.empty() ? "" : ": " + last_failure));
}

// Calls to one durable actor, one after the other; those that failed may have been applied, once.
struct Book {
  explicit Book(troupe::JournalPlace place)
      : ledger(troupe::spawn<Ledger>(
            ActorOptions().durable(troupe::Durable().journal(std::move(place)).snapshot_every(200)))),
        loop([this] { call(); }) {}

  void call() {
    int number = next++;
    try {
      int position = ledger.call<&Ledger::append>(number).get();
      acknowledged.emplace_back(number, position);
      ++count;
    } catch (const troupe::Failure& failure) {
      auto kind = failure.error().kind;
      check(kind == troupe::ErrorKind::unavailable || kind == troupe::ErrorKind::resource_exhausted,
            failure.error().describe());
      ++failed;
      std::this_thread::sleep_for(10ms);
    }
  }
  void await(int more) {
    for (long until = count + more; count < until; std::this_thread::sleep_for(1ms)) loop.check_well();
  }
  std::string end() {
    loop.stop();
    std::vector<int> all;
    for (int tries = 0;; ++tries) {
      try {
        all = ledger.call<&Ledger::all>().get();
        break;
      } catch (const troupe::Failure& failure) {
        check(tries < 600, failure.error().describe());
        std::this_thread::sleep_for(100ms);
      }
    }
    for (auto [number, position] : acknowledged) {
      check(position >= 1 && position <= static_cast<int>(all.size()) &&
                all[static_cast<std::size_t>(position) - 1] == number,
            "call " + std::to_string(number) + " was acknowledged and lost");
    }
    for (std::size_t i = 1; i < all.size(); ++i)
      check(all[i] > all[i - 1], "call " + std::to_string(all[i]) + " was applied twice or out of order");
    return std::to_string(acknowledged.size()) + " acknowledged, " + std::to_string(failed) + " failed, " +
           std::to_string(all.size()) + " applied";
  }

  troupe::Handle<Ledger> ledger;
  int next = 0;
  std::vector<std::pair<int, int>> acknowledged;  // number, position in the ledger
  std::atomic<long> count{0}, failed{0};
  Loop loop;  // last: it uses the rest
};

// Durable actors with their journals in the store and on the node. Each line of input: some more calls of
// both are acknowledged.
void durable_outage() {
  Book store(troupe::JournalPlace::store()), node(troupe::JournalPlace::node());
  store.await(20);
  node.await(20);
  say("calling");
  for (std::string line; std::getline(std::cin, line) && line != "end";) {
    auto& book = line == "node" ? node : store;
    book.await(20);
    say(line + " goes on");
  }
  say("store: " + store.end());
  say("node: " + node.end());
}

}  // namespace

const std::map<std::string, std::function<void()>>& store_cases() {
  static const std::map<std::string, std::function<void()>> cases = {{"mutate", mutate},
                                                                     {"durable_outage", durable_outage}};
  return cases;
}

}  // namespace probe
