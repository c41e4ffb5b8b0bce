#include "tests/sim/simulation.h"

#include "core/base/fault_point.h"
#include "tests/sim/cluster.h"
#include "tests/sim/folder.h"
#include "tests/sim/workload.h"

namespace troupe::sim {
namespace {

constexpr std::uint64_t kMostSteps = 200'000;
constexpr unsigned kFavourite = 250;  // per mille

class Run {
 public:
  explicit Run(const RunOptions& options)
      : wanted_(options.favourite),
        world_(options.seed, options.keep_trace, {}),
        cluster_(world_, sim_folder()),
        workload_(cluster_) {
    FaultPoints::decide_by(
        [this](const FaultPoint& point) { return fires(point); },
        [this](const FaultPoint& point, const void* where) { cluster_.crash(point, where); });
  }
  ~Run() noexcept(false) { FaultPoints::decide_by(nullptr, nullptr); }

  Outcome run() {
    workload_.set_up();
    auto points = FaultPoints::all();
    favourite_ = points[world_.random.below(points.size())];
    history();
    if (going()) settle();
    if (going()) answer();
    if (going()) end();
    for (const auto& [what, times] : world_.calls.counts()) world_.reached[what] += times;
    Outcome outcome;
    outcome.violation = world_.judge.verdict();
    outcome.hash = world_.trace.hash();
    outcome.steps = steps_;
    outcome.seconds = static_cast<double>(world_.time.now()) / kSecond;
    outcome.trace = world_.trace.kept();
    outcome.reached = std::move(world_.reached);
    return outcome;
  }

 private:
  bool fires(const FaultPoint& point) {
    unsigned chance = world_.chances.points;
    if (&point == wanted_ || (chance != 0 && &point == favourite_)) chance = kFavourite;
    bool crashes =
        &point != wanted_ && std::string_view(point.name()).find(".crash.") != std::string_view::npos;
    if (chance == 0 || !world_.random.chance(chance) || (crashes && !world_.random.chance(300))) return false;
    world_.reach(std::string("fault: ") + point.name());
    world_.note(std::string("fault point ") + point.name());
    return true;
  }

  bool going() const { return !world_.judge.verdict(); }

  void run_until(Micros limit) {
    while (going() && world_.time.now() < limit && cluster_.step(limit)) {
      if (++steps_ > kMostSteps) world_.judge.violation("the run does not end");
    }
  }
  template <class Condition>
  bool run_until(Micros limit, Condition&& fulfilled) {
    while (going() && world_.time.now() < limit) {
      if (fulfilled()) return true;
      run_until(world_.time.now() + 100 * kMilli);
    }
    return fulfilled();
  }

  void history() {
    Micros end = world_.random.between(3, 8) * kSecond;
    while (going() && world_.time.now() < end) {
      run_until(world_.time.now() + workload_.pause());
      if (going()) workload_.act();
    }
  }

  // No faults any more: nodes, heads and drivers find each other again.
  void settle() {
    wanted_ = nullptr;
    workload_.calm();
    run_until(world_.time.now() + 8 * kSecond);
    // A head that was fenced late, or could not read a store that was away, is started again.
    if (cluster_.heads() == 0) cluster_.start_head();
    bool there = run_until(world_.time.now() + 40 * kSecond, [&] {
      for (auto& [name, node] : cluster_.nodes()) node->start();
      Head* head = cluster_.head();
      if (head == nullptr) return false;
      std::size_t alive = 0;
      for (const auto& [id, node] : head->core().nodes()) {
        if (node.phase == gcs::NodePhase::awaited) return false;
        alive += node.phase == gcs::NodePhase::alive;
      }
      for (auto& [name, node] : cluster_.nodes()) {
        const gcs::NodeRecord* record = head->core().node(node->id());
        if (record == nullptr || record->phase != gcs::NodePhase::alive) return false;
      }
      return alive == cluster_.nodes().size();
    });
    if (!there && going()) world_.judge.violation("nodes and head did not find each other again");
  }

  // In calm every call to an actor that lives, or is dead for good, ends, and says what is so.
  void answer() {
    workload_.call_everybody();
    auto settled = [&](ActorId actor) {
      const gcs::ActorRecord* record =
          cluster_.head() == nullptr ? nullptr : cluster_.head()->core().actor(actor);
      return record == nullptr || record->phase == gcs::Phase::alive || record->phase == gcs::Phase::dead;
    };
    bool answered = run_until(world_.time.now() + 60 * kSecond,
                              [&] { return world_.calls.outstanding_if(settled) == 0; });
    if (!answered && going()) {
      std::string text =
          "calls to settled actors do not end:" + world_.calls.describe_outstanding() + "; settled:";
      (void)world_.calls.outstanding_if([&](ActorId actor) {
        const gcs::ActorRecord* record = cluster_.head()->core().actor(actor);
        if (settled(actor))
          text += " " + to_string(actor) +
                  (record == nullptr ? " unknown" : std::string(" ") + to_string(record->phase));
        return false;
      });
      world_.judge.violation(text);
    }
    if (going()) world_.calls.check_failures(world_.time.now());
  }

  bool all_dead(const gcs::ControlStore& core) {
    using gcs::Phase;
    return core.count(Phase::pending) + core.count(Phase::starting) + core.count(Phase::alive) +
               core.count(Phase::restarting) ==
           0;
  }

  void end() {
    world_.calls.nothing_more_is_sure();
    for (const auto& [id, job] : cluster_.head()->core().jobs()) cluster_.admin_kill("job:" + to_string(id));
    bool answered = run_until(world_.time.now() + 45 * kSecond, [&] {
      std::size_t asking = cluster_.admin_asking() + world_.calls.outstanding();
      for (auto& [name, driver] : cluster_.drivers()) asking += driver->asking();
      return asking == 0;
    });
    if (!answered && going())
      return world_.judge.violation("requests or calls are still unanswered:" +
                                    world_.calls.describe_outstanding());
    while (!cluster_.drivers().empty()) cluster_.end_driver(cluster_.drivers().begin()->first, false);
    bool clean = run_until(world_.time.now() + 30 * kSecond, [&] {
      Head* head = cluster_.head();
      return head != nullptr && all_dead(head->core()) && cluster_.workers().all().empty();
    });
    if (!going()) return;
    if (cluster_.head() == nullptr) return world_.judge.violation("the head has gone");
    const gcs::ControlStore& core = cluster_.head()->core();
    if (!all_dead(core)) return world_.judge.violation("actors live on without their jobs");
    if (!clean) return world_.judge.violation("workers are left over");
    run_until(world_.time.now() + 3 * kSecond);
    if (!going()) return;
    for (const auto& [id, node] : core.nodes()) {
      if (node.phase != gcs::NodePhase::alive) continue;
      const gcs::NodeSlots* slots = core.placement().node(id);
      if (slots->free() != slots->total()) {
        return world_.judge.violation("node " + node.info.name + " has not got everything back");
      }
    }
    if (core.placement().waiting() != 0) return world_.judge.violation("the placement still waits");
    world_.judge.check_disk(core);
  }

  const FaultPoint* wanted_;
  World world_;
  Cluster cluster_;
  Workload workload_;
  const FaultPoint* favourite_ = nullptr;  // fires often in this history, so that the rare ones do at times
  std::uint64_t steps_ = 0;
};

}  // namespace

Outcome run_seed(const RunOptions& options) {
  Run run(options);
  return run.run();
}

}  // namespace troupe::sim
