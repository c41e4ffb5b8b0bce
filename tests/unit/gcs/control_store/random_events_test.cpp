// Random histories, seeded: after every event all invariants hold, and at the end nothing is left over.
#include <gtest/gtest.h>

#include <random>

#include "disk.h"
#include "script.h"

namespace troupe::gcs {
namespace {

// How often the histories reached what matters; none may be rare by accident.
struct Reached {
  int alive = 0, restarting = 0, dead = 0, infeasible = 0, returned_nodes = 0, destroyed = 0;
};

// A cluster of agents that carry out orders late, twice, or never, beside requests drawn at random.
class History {
 public:
  History(std::uint64_t seed, Reached& reached)
      : reached_(reached), random_(seed), core_(std::make_unique<ControlStore>(options())) {}

  static ControlStore::Options options() {
    ControlStore::Options o;
    o.dead_actors = 20;
    o.dead_jobs = 3;
    o.dead_nodes = 3;
    o.id_block = 4;
    return o;
  }

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      now_ += static_cast<Time>(pick(200));
      if (pick(300) == 0) {
        restart();
      } else {
        apply(draw());
      }
      if (::testing::Test::HasFailure()) return;
    }
  }

  void finish() {
    for (int job = 1; job <= 200; ++job) apply(JobEnd{1, {static_cast<std::uint64_t>(job)}, "end"});
    for (int node = 1; node <= 400; ++node) apply(NodeLost{{static_cast<std::uint64_t>(node)}, "end"});
    now_ += 1'000'000;
    apply(Tick{});
    ASSERT_EQ(core_->count(Phase::pending) + core_->count(Phase::starting) + core_->count(Phase::alive) +
                  core_->count(Phase::restarting),
              0u);
    ASSERT_LE(core_->actors().size(), 20u);
    ASSERT_LE(core_->jobs().size(), 3u);
    ASSERT_LE(core_->nodes().size(), 3u);
    ASSERT_LE(disk_.actors(), 20u);
    ASSERT_EQ(core_->placement().waiting(), 0u);
  }

 private:
  std::uint64_t pick(std::uint64_t n) { return random_() % n; }

  void apply(Event event) {
    Actions out;
    core_->begin_turn(++turn_);
    core_->apply(std::move(event), now_, out);
    after(out);
  }

  void after(const Actions& out) {
    disk_.write(*core_, out);
    std::string bad = core_->check();
    ASSERT_EQ(bad, "") << "turn " << turn_;
    for (const Action& action : out) {
      if (const auto* place = std::get_if<Place>(&action.what)) {
        ASSERT_GE(place->incarnation, newest_[place->spec->actor]) << "an incarnation came twice";
        newest_[place->spec->actor] = place->incarnation;
        places_.push_back(*place);
      }
      if (const auto* notify = std::get_if<Notify>(&action.what)) {
        reached_.alive += notify->state.phase == Phase::alive;
        reached_.restarting += notify->state.phase == Phase::restarting;
        reached_.dead += notify->state.phase == Phase::dead;
        reached_.infeasible += notify->state.infeasible;
      }
      if (const auto* destroy = std::get_if<Destroy>(&action.what)) {
        destroys_.push_back(*destroy);
        ++reached_.destroyed;
      }
      if (const auto* end = std::get_if<EndJob>(&action.what)) ends_.push_back(*end);
      if (const auto* reply = std::get_if<Reply>(&action.what)) {
        ASSERT_TRUE(open_.erase(reply->request) == 1 || reply->request == 1) << "answered twice";
        if (const auto* joined = std::get_if<NodeJoined>(&reply->answer)) {
          reached_.returned_nodes += !nodes_seen_.insert(joined->node).second;
        }
        if (const auto* opened = std::get_if<JobOpened>(&reply->answer)) {
          ASSERT_TRUE(processes_seen_.insert(opened->process).second) << "a process id came twice";
          sessions_.push_back(opened->process);
        }
      }
    }
  }

  RequestId request() {
    open_.insert(++request_);
    return request_;
  }

  void restart() {
    core_ = std::make_unique<ControlStore>(options());
    open_.clear();
    Actions out;
    core_->begin_turn(++turn_);
    core_->restore(disk_.snapshot(), now_, out);
    after(out);
  }

  ActorId some_actor() {
    if (spawned_.empty()) return {};
    return spawned_[pick(spawned_.size())];
  }

  SpecPtr some_spec(ProcessId session) {
    auto spec = std::make_shared<ActorSpec>();
    bool again = pick(10) == 0 && !spawned_.empty();
    spec->actor = again ? some_actor() : actor_of(session, pick(10) == 0 ? 0 : ++next_[session]);
    spec->class_name = "C";
    spec->isolation = pick(2) ? Isolation::light : Isolation::process;
    spec->max_restarts = static_cast<std::int32_t>(pick(4)) - 1;
    spec->detached = pick(6) == 0;
    if (pick(4) == 0) spec->name = std::string(1, static_cast<char>('a' + pick(4)));
    spec->get_or_create = pick(8) == 0;
    if (pick(2)) (void)spec->resources.set("cpu", static_cast<double>(pick(5)) / 2);
    if (pick(4) == 0) (void)spec->resources.set("gpu", pick(2) ? 0.3 : static_cast<double>(pick(4)));
    if (pick(10) == 0) spec->node = "n" + std::to_string(pick(4));
    if (pick(3) == 0) spec->owner = some_actor();
    if (spec->actor) spawned_.push_back(spec->actor);
    return spec;
  }

  ProcessId some_session() {
    if (!places_.empty() && pick(2)) {
      const Place& place = places_[pick(places_.size())];
      return place.process;
    }
    return sessions_.empty() ? ProcessId{1} : sessions_[pick(sessions_.size())];
  }

  Event draw() {
    Place none{{1}, std::make_shared<ActorSpec>(), 1, {1}, {1}, {}};
    bool old = pick(8) == 0;
    auto recent = [&](const auto& all) {
      return all[old ? pick(all.size()) : all.size() - 1 - pick(std::min<std::size_t>(all.size(), 12))];
    };
    Place place = places_.empty() ? none : recent(places_);
    ActorId actor = place.spec->actor;
    switch (pick(20)) {
      case 0:
      case 1: {
        NodeInfo info{"n" + std::to_string(pick(4)), "h", static_cast<std::int32_t>(pick(6)), "", {}};
        (void)info.resources.set("cpu", static_cast<double>(pick(6)));
        (void)info.resources.set("gpu", static_cast<double>(pick(4)));
        if (pick(5) == 0) info.name.clear();
        return NodeJoin{request(), info};
      }
      case 2: {
        if (pick(3) == 0) return NodeLost{{1 + pick(8)}, "lost"};
        return NodeDrain{request(), "n" + std::to_string(pick(4)), pick(2) == 0};
      }
      case 3:
        return JobOpen{request(), {}};
      case 4: {
        if (pick(4) == 0) return JobEnd{0, {1 + pick(10)}, "gone"};
        return Acknowledge{request()};
      }
      case 5:
      case 6:
      case 7:
      case 8: {
        ProcessId session = some_session();
        Spawn spawn{request(), session, {}};
        for (std::uint64_t n = pick(4); n > 0; --n) spawn.actors.push_back(some_spec(session));
        return spawn;
      }
      case 9:
        return Resolve{request(), some_session(), some_actor(), static_cast<std::uint32_t>(pick(3))};
      case 10:
        return Kill{request(), some_actor(), pick(2) == 0};
      case 11:
        return Find{request(), std::string(1, static_cast<char>('a' + pick(4)))};
      case 12:
      case 13:
      case 14:
        return ActorAlive{place.node, actor, place.incarnation,
                          Endpoint{place.process, place.node, "", "", "", 0}};
      case 15:
        return ActorFailed{place.node, actor, place.incarnation, nullptr};
      case 16:
        return ProcessEnded{place.node, place.process, nullptr};
      case 17: {
        if (destroys_.empty()) return Tick{};
        Destroy destroy = recent(destroys_);
        return ActorDestroyed{destroy.node, destroy.actor, destroy.incarnation};
      }
      case 18: {
        if (ends_.empty()) return SessionClosed{{99}};
        EndJob end = recent(ends_);
        return JobEndedOn{end.node, end.job};
      }
      default:
        return Tick{};
    }
  }

  Reached& reached_;
  std::set<NodeId> nodes_seen_;
  std::mt19937_64 random_;
  std::unique_ptr<ControlStore> core_;
  Disk disk_;
  Time now_ = 1'000;
  Turn turn_ = 0;
  RequestId request_ = 1;
  std::set<RequestId> open_;
  std::vector<ProcessId> sessions_;
  std::set<ProcessId> processes_seen_;
  std::vector<ActorId> spawned_;
  std::map<ProcessId, std::uint64_t> next_;
  std::map<ActorId, std::uint32_t> newest_;
  std::vector<Place> places_;
  std::vector<Destroy> destroys_;
  std::vector<EndJob> ends_;
};

TEST(ControlStoreRandomEvents, InvariantsHoldAfterEachAndNothingIsLeft) {
  Reached reached;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed, reached);
    history.run(250);
    if (HasFailure()) return;
    history.finish();
    if (HasFailure()) return;
  }
  EXPECT_GT(reached.alive, 1'000);
  EXPECT_GT(reached.restarting, 1'000);
  EXPECT_GT(reached.dead, 1'000);
  EXPECT_GT(reached.infeasible, 100);
  EXPECT_GT(reached.returned_nodes, 20);
  EXPECT_GT(reached.destroyed, 1'000);
}

}  // namespace
}  // namespace troupe::gcs
