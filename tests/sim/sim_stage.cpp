#include "tests/sim/sim_stage.h"

#include "tests/sim/cluster.h"
#include "tests/sim/folder.h"

namespace troupe::sim {
namespace {

constexpr Micros kPatience = 10 * kSecond;

class SimStage final : public Stage {
 public:
  explicit SimStage(const RunOptions& options)
      : world(options.seed, options.keep_trace, {}), cluster_(world, sim_folder()) {
    cluster_.start_head();
  }

  std::int64_t now() override { return world.time.now(); }

  void wait_until(std::int64_t micros) override {
    while (!world.judge.verdict() && world.time.now() < micros && cluster_.step(micros)) ++steps;
  }

  Result<void> perform(const Statement& what) override {
    if (world.judge.verdict()) return Error(ErrorKind::internal, *world.judge.verdict());
    if (what.kind == "head") return on_head(what);
    if (what.kind == "driver") {
      if (what.verb == "kill")
        cluster_.end_driver(what.name, false);
      else
        cluster_.add_driver(what.name);
      return {};
    }
    return what.kind == "node" ? on_node(what) : on_actor(what);
  }

  bool holds(const Statement& what) override {
    if (world.judge.verdict()) return false;
    if (what.kind == "workers") {
      return std::to_string(cluster_.workers().all().size()) == what.state;
    }
    Head* head = cluster_.head();
    if (head == nullptr) return false;
    if (what.kind == "node") {
      NodeId id = head->core().node_named(what.name);
      const gcs::NodeRecord* record = head->core().node(id);
      bool alive = record != nullptr && record->phase == gcs::NodePhase::alive;
      return alive == (what.state == "alive");
    }
    const gcs::ActorRecord* record = actor(what.name);
    if (record == nullptr) return false;
    bool dead = record->phase == gcs::Phase::dead, alive = record->phase == gcs::Phase::alive;
    return what.state == "dead" ? dead : what.state == "alive" ? alive : !dead && !alive;
  }

  std::string situation() override {
    if (world.judge.verdict()) return *world.judge.verdict();
    Head* head = cluster_.head();
    if (head == nullptr) return "no head serves";
    std::string text = "it is otherwise:";
    for (const auto& [id, node] : head->core().nodes()) {
      text += " node " + node.info.name + (node.phase == gcs::NodePhase::alive ? " alive," : " not alive,");
    }
    for (const auto& [id, record] : head->core().actors()) {
      text += " actor " + record.spec->name + " " + to_string(record.phase) + ",";
    }
    return text + " " + std::to_string(cluster_.workers().all().size()) + " workers";
  }

  World world;
  std::uint64_t steps = 0;

 private:
  static Error wrong(const std::string& what) { return Error(ErrorKind::invalid_argument, what); }

  Result<void> on_head(const Statement& what) {
    if (what.verb == "start") {
      cluster_.start_head();
    } else if (what.verb == "kill") {
      cluster_.kill_head(false);
    } else if (what.verb == "thaw") {
      cluster_.thaw_heads();
    } else if (Head* head = cluster_.head()) {
      head->process().freeze();
    }
    return {};
  }

  Result<void> on_node(const Statement& what) {
    if (what.verb == "node") {
      Resources has;
      (void)has.set("cpu", what.number("cpu"));
      (void)has.set("gpu", what.number("gpu"));
      cluster_.add_node(what.name, has).start();
      return {};
    }
    Node* node = cluster_.node(what.name);
    if (node == nullptr) return wrong("no node " + what.name);
    if (what.verb == "start") node->start();
    if (what.verb == "stop") node->stop();
    if (what.verb == "kill") node->kill(false);
    if (what.verb == "freeze") node->freeze();
    if (what.verb == "thaw") node->thaw();
    return {};
  }

  Result<void> on_actor(const Statement& what) {
    if (what.verb == "spawn") {
      Driver* driver = cluster_.driver(what.options.at("by"));
      if (driver == nullptr) return wrong("no driver " + what.options.at("by"));
      Micros limit = now() + kPatience;
      while (!driver->connected() && now() < limit) wait_until(now() + 10 * kMilli);
      drivers_[what.name] = what.options.at("by");
      Wish wish;
      wish.name = what.name;
      wish.light = what.has("light");
      wish.detached = what.has("detached");
      wish.cpu = what.number("cpu");
      wish.gpu = what.number("gpu");
      wish.restarts = static_cast<int>(what.number("restarts"));
      if (what.has("node")) wish.node = what.options.at("node");
      if (!driver->spawn({wish})) return wrong("the driver is not connected");
      return {};
    }
    const gcs::ActorRecord* record = actor(what.name);
    if (record == nullptr) return wrong("no actor " + what.name);
    if (what.verb == "kill") {
      cluster_.admin_kill(what.name);
      return {};
    }
    for (const auto& [pid, worker] : cluster_.workers().all()) {
      if (worker->process() == record->process.value && !worker->dead()) {
        cluster_.workers().crash(pid, 9);
        return {};
      }
    }
    return wrong("actor " + what.name + " runs nowhere");
  }

  // The living one of that name, or the last.
  const gcs::ActorRecord* actor(const std::string& name) {
    Head* head = cluster_.head();
    if (head == nullptr) return nullptr;
    const gcs::ActorRecord* found = head->core().actor(head->core().named(name));
    if (found != nullptr) return found;
    for (const auto& [id, record] : head->core().actors()) {
      if (record.spec->name == name && (found == nullptr || found->spec->actor < id)) found = &record;
    }
    return found;
  }

  Cluster cluster_;
  std::map<std::string, std::string> drivers_;  // actor → who spawned it
};

}  // namespace

Outcome run_scenario(const Scenario& scenario, const RunOptions& options) {
  SimStage stage(options);
  Result<void> played = play(scenario, stage);
  Outcome outcome;
  outcome.violation = stage.world.judge.verdict();
  if (!played && !outcome.violation) outcome.violation = played.error().message;
  outcome.hash = stage.world.trace.hash();
  outcome.steps = stage.steps;
  outcome.seconds = static_cast<double>(stage.now()) / kSecond;
  outcome.trace = stage.world.trace.kept();
  outcome.reached = stage.world.reached;
  return outcome;
}

}  // namespace troupe::sim
