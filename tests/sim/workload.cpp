#include "tests/sim/workload.h"

#include <algorithm>
#include <set>

namespace troupe::sim {

Workload::Workload(Cluster& cluster)
    : cluster_(cluster), world_(cluster.world()), random_(cluster.world().random) {
  list_requests();
  list_calls();
  list_faults();
  list_repairs();
  for (const Choice& deed : deeds_) weights_ += deed.weight;
}

void Workload::set_up() {
  auto level = random_.below(4);  // calm, or ever rougher
  Chances& chances = world_.chances;
  auto up_to = [&](std::uint64_t most) {
    return level == 0 ? 0 : static_cast<unsigned>(random_.below(most * level));
  };
  chances.starter_fails = up_to(30);
  chances.launch_fails = up_to(30);
  chances.worker_hangs = up_to(10);
  chances.worker_dies_early = up_to(30);
  chances.constructor_fails = up_to(60);
  chances.repeated_report = 50;
  chances.silent_death = 300;
  chances.points = random_.chance(400) ? 0 : up_to(15);
  chances.store.fails_before = up_to(20);
  chances.store.fails_after = up_to(20);
  chances.store.slow = up_to(20);
  chances_of_crash_ = up_to(300);
  step_ = random_.between(10, 60) * kMilli;
  cluster_.start_head();
  auto nodes = 1 + random_.below(4);
  for (std::uint64_t i = 1; i <= nodes; ++i) {
    Resources has;
    (void)has.set("cpu", static_cast<double>(1 + random_.below(8)));
    if (random_.chance(700)) (void)has.set("gpu", static_cast<double>(1 + random_.below(3)));
    Node& node = cluster_.add_node("n" + std::to_string(i), has);
    world_.time.after(random_.between(0, 500 * kMilli), [&node] { node.start(); });
  }
  auto drivers = 1 + random_.below(2);
  for (std::uint64_t i = 0; i < drivers; ++i) add_driver();
}

void Workload::add_driver() {
  std::string host =
      random_.chance(400) ? "n" + std::to_string(1 + random_.below(cluster_.nodes().size())) : "";
  cluster_.add_driver("d" + std::to_string(++drivers_), host, random_.chance(850));
}

Micros Workload::pause() { return random_.between(0, 2 * step_); }

void Workload::act() {
  auto at = random_.below(weights_);
  for (const Choice& deed : deeds_) {
    if (at >= deed.weight) {
      at -= deed.weight;
      continue;
    }
    if (deed.run()) world_.reach(std::string("did: ") + deed.name);
    return;
  }
}

Node* Workload::some_node(const std::function<bool(Node&)>& fits) {
  std::vector<Node*> all;
  for (auto& [name, node] : cluster_.nodes()) {
    if (fits(*node)) all.push_back(node.get());
  }
  return all.empty() ? nullptr : all[random_.below(all.size())];
}

Driver* Workload::some_driver() {
  auto& all = cluster_.drivers();
  if (all.empty()) return nullptr;
  return std::next(all.begin(), static_cast<std::ptrdiff_t>(random_.below(all.size())))->second.get();
}

void Workload::list_requests() {
  auto add = [&](unsigned weight, const char* name, std::function<bool()> run) {
    deeds_.push_back({weight, name, std::move(run)});
  };
  auto by_driver = [this](auto what) {
    return [this, what] {
      Driver* driver = some_driver();
      return driver != nullptr && what(*driver);
    };
  };
  add(30, "spawn", by_driver([this](Driver& driver) {
        std::vector<Wish> wishes;
        for (auto n = 1 + random_.below(random_.chance(100) ? 20 : 3); n > 0; --n) {
          wishes.push_back(Wish::draw(random_));
        }
        if (random_.chance(400)) return driver.spawn(wishes);
        bool done = false;
        for (const Wish& wish : wishes) done = driver.spawn_by_product(wish);
        return done;
      }));
  add(10, "resolve", by_driver([](Driver& driver) { return driver.resolve(); }));
  add(6, "find",
      by_driver([this](Driver& driver) { return driver.find("name-" + std::to_string(random_.below(6))); }));
  add(12, "kill", by_driver([this](Driver& driver) {
        bool no_restart = random_.chance(700);
        if (random_.chance(500)) return driver.kill_one(no_restart);
        ActorId actor = some_actor(driver);
        return actor && driver.kill_by_product(actor, no_restart);
      }));
  add(1, "list nodes", by_driver([](Driver& driver) { return driver.list_nodes(); }));
  add(8, "spawn a child", [this] {
    Worker* worker = cluster_.workers().any();
    return worker != nullptr && worker->spawn_child();
  });
  add(2, "driver joins", [this] {
    if (cluster_.drivers().size() >= 3) return false;
    add_driver();
    return true;
  });
  add(1, "driver leaves", by_driver([this](Driver& driver) {
        if (cluster_.drivers().size() < 2) return false;
        cluster_.end_driver(std::string(driver.name()), random_.chance(200));
        return true;
      }));
  add(1, "admin kills a job", by_driver([this](Driver& driver) {
        if (!driver.job()) return false;
        cluster_.admin_kill("job:" + to_string(driver.job()));
        return true;
      }));
  add(1, "admin removes a node", [this] {
    Node* node = some_node([](Node& n) { return n.joined(); });
    if (node == nullptr) return false;
    cluster_.admin_kill("node:" + node->name());
    return true;
  });
}

ActorId Workload::some_actor(Driver& driver) {
  // Mostly the youngest of its own, so that calls meet on some actors.
  const auto& own = driver.actors();
  if (!own.empty() && random_.chance(850))
    return own[own.size() - 1 - random_.below(std::min<std::size_t>(own.size(), 6))];
  return world_.actors.empty() ? ActorId() : world_.actors[random_.below(world_.actors.size())];
}

CallPlan Workload::draw_call(Driver& driver) {
  CallPlan plan;
  plan.target = some_actor(driver);
  auto what = random_.below(100);
  if (what < 45) {
    plan.deed = Deed::answers;
  } else if (what < 55) {
    plan.deed = Deed::throws;
  } else if (what < 75) {
    plan.deed = Deed::takes_time;
    plan.time = random_.chance(100) ? random_.between(500, 3000) * kMilli : random_.between(0, 100 * kMilli);
  } else if (what < 98 || !random_.chance(chances_of_crash_)) {
    plan.deed = random_.chance(300) ? Deed::asks_and_blocks : Deed::asks;
    plan.other = some_actor(driver);
  } else {
    plan.deed = Deed::crashes;
  }
  plan.one_way = random_.chance(150);
  if (random_.chance(300)) plan.retries = static_cast<int>(1 + random_.below(3));
  if (random_.chance(200))
    plan.deadline =
        random_.chance(500) ? random_.between(100, 100 * kMilli) : random_.between(1, 5) * kSecond;
  return plan;
}

void Workload::list_calls() {
  auto add = [&](unsigned weight, const char* name, std::function<bool()> run) {
    deeds_.push_back({weight, name, std::move(run)});
  };
  add(60, "calls", [this] {
    Driver* driver = some_driver();
    if (driver == nullptr || driver->actors().empty()) return false;
    CallPlan plan = draw_call(*driver);
    bool done = false;
    for (auto n = 1 + random_.below(random_.chance(50) ? 30 : 5); n > 0; --n) {
      done = driver->call(plan, random_.chance(150));
      ActorId same = plan.target;
      plan = draw_call(*driver);
      if (random_.chance(700)) plan.target = same;
    }
    return done;
  });
  add(5, "cancel a call", [this] {
    Driver* driver = some_driver();
    return driver != nullptr && driver->cancel_one();
  });
  add(4, "drop a handle", [this] {
    Driver* driver = some_driver();
    return driver != nullptr && !driver->actors().empty() && driver->drop_handle(some_actor(*driver));
  });
}

void Workload::call_everybody() {
  const auto& jobs = cluster_.head()->core().jobs();
  for (auto& [name, driver] : cluster_.drivers()) {
    auto job = jobs.find(driver->job());
    if (job == jobs.end() || job->second.ended) continue;
    std::set<ActorId> actors(driver->actors().begin(), driver->actors().end());
    for (ActorId actor : actors) {
      CallPlan plan;
      plan.target = actor;
      plan.sure = true;
      (void)driver->call(plan, false);
    }
  }
}

void Workload::list_faults() {
  auto add = [&](unsigned weight, const char* name, std::function<bool()> run) {
    deeds_.push_back({weight, name, std::move(run)});
  };
  auto by_node = [this](auto fits, auto what) {
    return [this, fits, what] {
      Node* node = some_node(fits);
      if (node == nullptr) return false;
      world_.note("fault at " + node->name());
      what(*node);
      return true;
    };
  };
  auto running = [](Node& node) { return node.running(); };
  add(8, "worker crashes", [this] {
    Worker* worker = cluster_.workers().any();
    if (worker == nullptr) return false;
    worker->die(random_.chance(500) ? 11 : 3 << 8);
    return true;
  });
  add(5, "light actor fails", [this] {
    Worker* worker = cluster_.workers().any();
    return worker != nullptr && worker->fail_one_actor();
  });
  add(2, "zygote crashes", [this] { return cluster_.workers().crash_starter(); });
  add(2, "node dies",
      by_node(running, [this](Node& n) { n.kill(random_.chance(world_.chances.silent_death)); }));
  add(1, "node stops", by_node(running, [](Node& n) { n.stop(); }));
  add(2, "node freezes", by_node(running, [](Node& n) { n.freeze(); }));
  add(3, "node partitioned",
      by_node(running, [this](Node& n) { world_.network.partition(n.name(), "head"); }));
  add(2, "connection of a node cut",
      by_node(running, [this](Node& n) { world_.network.cut(n.name(), "head"); }));
  add(1, "connection of a driver cut", [this] {
    Driver* driver = some_driver();
    return driver != nullptr && world_.network.cut(driver->host(), "head");
  });
  add(1, "driver partitioned", [this] {
    Driver* driver = some_driver();
    if (driver == nullptr) return false;
    world_.network.partition(driver->host(), "head");
    return true;
  });
  add(2, "nodes partitioned", [this] {
    Node* one = some_node([](Node&) { return true; });
    Node* other = some_node([](Node&) { return true; });
    if (one == nullptr || one == other) return false;
    world_.network.partition(one->name(), other->name());
    return true;
  });
  add(2, "driver and node partitioned", [this] {
    Driver* driver = some_driver();
    Node* node = some_node([](Node&) { return true; });
    if (driver == nullptr || node == nullptr || driver->host() == node->name()) return false;
    world_.network.partition(driver->host(), node->name());
    return true;
  });
  add(2, "links between machines cut", [this] {
    Driver* driver = some_driver();
    Node* node = some_node([](Node&) { return true; });
    return driver != nullptr && node != nullptr && world_.network.cut(driver->host(), node->name());
  });
  add(2, "head dies", [this] {
    if (cluster_.head() == nullptr) return false;
    cluster_.kill_head(random_.chance(100));
    return true;
  });
  add(1, "second head", [this] {
    if (cluster_.head() == nullptr || cluster_.heads() > 1) return false;
    cluster_.start_head();
    return true;
  });
  add(1, "head freezes", [this] {
    Head* head = cluster_.head();
    if (head == nullptr || head->process().frozen()) return false;
    head->process().freeze();
    return true;
  });
  add(1, "store away", [this] { return !std::exchange(world_.disk.away, true); });
}

void Workload::list_repairs() {
  auto add = [&](unsigned weight, const char* name, std::function<bool()> run) {
    deeds_.push_back({weight, name, std::move(run)});
  };
  add(15, "head starts", [this] {
    if (cluster_.heads() > 0) return false;
    cluster_.start_head();
    return true;
  });
  add(8, "head thaws", [this] {
    Head* head = cluster_.head();
    if (head == nullptr || !head->process().frozen()) return false;
    cluster_.thaw_heads();
    return true;
  });
  add(12, "store back", [this] { return std::exchange(world_.disk.away, false); });
  add(10, "node starts", [this] {
    Node* node = some_node([](Node& n) { return !n.running(); });
    if (node == nullptr) return false;
    node->start();
    return true;
  });
  add(6, "node thaws", [this] {
    Node* node = some_node([](Node& n) { return n.frozen(); });
    if (node == nullptr) return false;
    node->thaw();
    return true;
  });
  add(5, "partitions heal", [this] {
    world_.network.heal_all();
    return true;
  });
}

void Workload::calm() {
  world_.note("calm");
  world_.chances = {};
  world_.disk.away = false;
  world_.network.heal_all();
  for (auto& [name, node] : cluster_.nodes()) {
    node->thaw();
    node->start();
  }
  cluster_.thaw_heads();
  cluster_.end_old_heads();  // one that has nothing to write does not learn that it was replaced
  if (cluster_.heads() == 0) cluster_.start_head();
}

}  // namespace troupe::sim
