// The driver that tools/chaos keeps running: `chaos_load FOLDER NODES` calls actors without a pause. Lines of
// input: `quiet` ends the calls and prints the ledger, `probe` makes an actor on each node and calls it,
// `burst` runs the burst, `end` ends. Each is answered with a line of JSON; a tick comes every half second.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <mutex>
#include <sstream>

#include "burst.h"
#include "caller.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;
using troupe::ActorOptions;
using troupe::CallOptions;

constexpr int kDeadlineMs = 3000;

std::string prefix_for(const std::string& folder) {
  static std::atomic<int> next{0};
  return folder + "/" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

void say(const std::string& line) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Of calls of the driver to one actor that is made again for ever.
Caller::Aim steady(const std::string& folder, std::uint32_t id, ActorOptions options, CallOptions call) {
  return [=](std::string& prefix) -> Caller::Make {
    prefix = prefix_for(folder);
    auto actor = troupe::spawn<Counter>(options, prefix);
    return [=](std::uint64_t number) { return actor.with(call).call<&Counter::run>(id, 0u, number); };
  };
}

Caller::Aim relayed(const std::string& folder, std::uint32_t id, ActorOptions relay, ActorOptions options) {
  return [=](std::string& prefix) -> Caller::Make {
    prefix = prefix_for(folder);
    auto actor = troupe::spawn<Counter>(options, prefix);
    auto through = troupe::spawn<Relay>(relay);
    auto call = CallOptions().deadline(kDeadlineMs * 1ms);
    return [=](std::uint64_t number) {
      return through.with(call).call<&Relay::forward>(actor, id, number, kDeadlineMs);
    };
  };
}

// Actors without restarts, one after the other; calls without a deadline.
Caller::Aim churning(const std::string& folder, std::uint32_t id, ActorOptions options) {
  auto last = std::make_shared<troupe::Handle<Counter>>();
  return [=](std::string& prefix) -> Caller::Make {
    if (*last) (void)last->kill();
    prefix = prefix_for(folder);
    auto actor = *last = troupe::spawn<Counter>(options, prefix);
    return [=](std::uint64_t number) { return actor.call<&Counter::run>(id, 0u, number); };
  };
}

class Load {
 public:
  Load(std::string folder, std::vector<std::string> nodes)
      : folder_(std::move(folder)), nodes_(std::move(nodes)) {
    auto lasting = ActorOptions().max_restarts(-1);
    auto once = CallOptions().deadline(kDeadlineMs * 1ms);
    auto repeated = CallOptions().deadline(kDeadlineMs * 1ms).retries(5);
    for (auto& node : nodes_) {
      auto here = ActorOptions(lasting).node(node);
      add({}, [&](std::uint32_t id) { return steady(folder_, id, ActorOptions(here).cpus(0.5), once); });
    }
    for (int i = 0; i < 3; ++i) {
      CallerOptions options;
      options.retries = i < 2;
      auto own = ActorOptions(lasting).cpus(0.5).gpus(0.25);
      add(options, [&](std::uint32_t id) { return steady(folder_, id, own, i < 2 ? repeated : once); });
      auto light = ActorOptions(lasting).light().resource("token", 0.1);
      add(options, [&](std::uint32_t id) { return steady(folder_, id, light, i < 2 ? repeated : once); });
      auto relay = i == 0 ? ActorOptions(lasting).light() : ActorOptions(lasting).cpus(0.1);
      auto target = i == 1 ? ActorOptions(lasting).light() : ActorOptions(lasting).cpus(0.1);
      add({}, [&](std::uint32_t id) { return relayed(folder_, id, relay, target); });
    }
    CallerOptions churn;
    churn.deadline_ms = 0, churn.calls_per_target = 100;
    add(churn, [&](std::uint32_t id) { return churning(folder_, id, ActorOptions().cpus(0.3)); });
    add(churn, [&](std::uint32_t id) {
      return churning(folder_, id, ActorOptions().light().resource("token", 0.2));
    });
  }

  std::string quiet() {
    std::int64_t begin = now_ms(), ended = 0;
    for (auto& caller : callers_) caller->quiet();
    while (ended == 0) {
      bool all = true;
      for (auto& caller : callers_) all &= caller->idle();
      if (all) ended = now_ms();
      std::this_thread::sleep_for(2ms);
    }
    Sums sums;
    for (auto& caller : callers_) {
      caller->finish();
      sums.add(caller->ledger().sums());
    }
    return "{\"ledger\":" + sums.json() + ",\"quiet_ms\":" + std::to_string(ended - begin) + "}";
  }

  std::string probe() {
    std::string bad;
    for (auto& node : nodes_) {
      for (bool light : {false, true}) {
        auto options = ActorOptions().node(node).isolation(light ? troupe::Isolation::light
                                                                 : troupe::Isolation::process);
        auto actor = troupe::spawn<Counter>(options, prefix_for(folder_));
        try {
          actor.with(CallOptions().deadline(20s)).call<&Counter::run>(0u, 0u, std::uint64_t{0}).get();
          actor.kill().get();
        } catch (const troupe::Failure& failure) {
          std::fprintf(stderr, "probe of %s: %s\n", node.c_str(), failure.what());
          bad += (bad.empty() ? "" : " ") + node;
        }
      }
    }
    return "{\"probe\":\"" + (bad.empty() ? "ok" : bad) + "\"}";
  }

  std::string tick() const {
    std::uint64_t sum = 0;
    std::string each;
    for (auto& caller : callers_) {
      sum += caller->acknowledged();
      each += (each.empty() ? "" : ",") + std::to_string(caller->acknowledged());
    }
    return "{\"tick\":" + std::to_string(sum) + ",\"callers\":[" + each + "]}";
  }

  std::string burst() {
    Sums once = chaos::burst(prefix_for(folder_), false), repeated = chaos::burst(prefix_for(folder_), true);
    return "{\"burst\":[" + once.json() + "," + repeated.json() + "]}";
  }

 private:
  template <class F>
  void add(CallerOptions options, F aim) {
    options.id = static_cast<std::uint32_t>(callers_.size()) + 1;
    callers_.push_back(std::make_unique<Caller>(options, aim(options.id)));
  }

  std::string folder_;
  std::vector<std::string> nodes_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

int run(const std::string& folder, const std::string& nodes) {
  troupe::on_failure([](const troupe::ActorFailure&) {});  // churning actors die as they like
  std::vector<std::string> names;
  std::istringstream list(nodes);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  Load load(folder, names);
  std::jthread ticker([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      say(load.tick());
      std::this_thread::sleep_for(500ms);
    }
  });
  for (std::string line; std::getline(std::cin, line) && line != "end";) {
    if (line == "quiet") say(load.quiet());
    if (line == "probe") say(load.probe());
    if (line == "burst") say(load.burst());
  }
  return 0;
}

}  // namespace
}  // namespace chaos

int main(int argc, char** argv) {
  try {
    troupe::Runtime runtime(argc, argv, troupe::classes<chaos::Counter, chaos::Relay>);
    if (argc != 3) {
      std::fprintf(stderr, "usage: chaos_load FOLDER NODE,NODE…\n");
      return 2;
    }
    int status = chaos::run(argv[1], argv[2]);
    chaos::say("{\"leaving\":1}");
    return status;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "chaos_load: %s\n", e.what());
    return 1;
  }
}
