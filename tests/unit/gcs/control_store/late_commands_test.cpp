// Commands and reports that cross each other. Each was found by the simulator.
#include <gtest/gtest.h>

#include "disk.h"
#include "script.h"

namespace troupe::gcs {
namespace {

class LateCommands : public ::testing::Test {
 protected:
  LateCommands() {
    JobInfo job;
    job.pid = 1;
    apply(JobOpen{1, job});
    NodeInfo node;
    node.name = "n1";
    node.resources.set_units("cpu", 40'000);
    apply(NodeJoin{2, node});
  }
  void apply(Event event) {
    core_.apply(std::move(event), ++now_, out_);
    EXPECT_EQ(core_.check(), "");
  }
  Place spawn(int restarts) {
    auto spec = std::make_shared<ActorSpec>();
    spec->actor = actor_of({1}, ++spawned_);
    spec->class_name = "Counter";
    spec->isolation = Isolation::light;
    spec->max_restarts = restarts;
    spec->resources.set_units("cpu", 10'000);
    out_.clear();
    apply(Spawn{3, {1}, {spec}});
    return last<Place>();
  }
  template <class T>
  T last() const {
    for (auto at = out_.rbegin(); at != out_.rend(); ++at) {
      if (const auto* one = std::get_if<T>(&at->what)) return *one;
    }
    ADD_FAILURE() << "no such action";
    return {};
  }
  std::int64_t free_cpu() const { return core_.placement().node({1})->free().units("cpu"); }

  ControlStore core_;
  Actions out_;
  Time now_ = 0;
  std::uint64_t spawned_ = 0;
};

// The command waits for its batch while its process ends: it must not be given any more.
TEST_F(LateCommands, APlacementOfAProcessThatEndedIsNotWanted) {
  Place place = spawn(1);
  EXPECT_TRUE(core_.wants(place));
  apply(ProcessEnded{{1}, place.process, nullptr});
  EXPECT_FALSE(core_.wants(place));
  EXPECT_TRUE(core_.wants(last<Place>()));
}

TEST_F(LateCommands, APlacementOfAKilledActorIsNotWanted) {
  Place place = spawn(0);
  apply(Kill{4, place.spec->actor, true});
  EXPECT_FALSE(core_.wants(place));
}

// The answer to a placement was lost: the actor may run, so its resources are not free before it was
// destroyed.
TEST_F(LateCommands, AnActorThatMayRunKeepsItsResources) {
  Place place = spawn(0);
  apply(ActorFailed{{1}, place.spec->actor, 1, nullptr, true});
  EXPECT_EQ(core_.actor(place.spec->actor)->phase, Phase::dead);
  EXPECT_EQ(free_cpu(), 30'000);
  EXPECT_EQ(last<Destroy>().actor, place.spec->actor);
  apply(ActorDestroyed{{1}, place.spec->actor, 1});
  EXPECT_EQ(free_cpu(), 40'000);
}

TEST_F(LateCommands, ALightActorThatFailedIsGone) {
  Place place = spawn(0);
  apply(ActorFailed{{1}, place.spec->actor, 1, nullptr});
  EXPECT_EQ(free_cpu(), 40'000);
}

// A dead actor's lease on a node that is dead as well: the record is written without it.
TEST(Restore, WritesWhatItDrops) {
  Snapshot snapshot;
  NodeInfo node;
  node.name = "n1";
  snapshot.nodes.push_back({{1}, node, false, 0, "it died"});
  JobInfo job;
  job.job = {1};
  snapshot.jobs.push_back({job, {1}, false, 0, 0, ""});
  auto spec = std::make_shared<ActorSpec>();
  spec->actor = actor_of({1}, 1);
  StoredActor actor{spec, {1}, 1, Phase::dead, {1}, {2}, {}, 0, nullptr};
  snapshot.actors.push_back(actor);
  ControlStore core;
  Actions out;
  core.restore(std::move(snapshot), 1, out);
  bool written = false;
  for (const Action& action : out) {
    const auto* persist = std::get_if<Persist>(&action.what);
    written |= persist != nullptr && persist->table == Table::actors && persist->id == spec->actor.value;
  }
  EXPECT_TRUE(written);
  EXPECT_EQ(core.check(), "");
}

// The node holds one of the two only. A head that claimed what the first had given back would hold the
// second, which runs, for lost.
TEST(RestartedHead, ClaimsNoLeaseThatWasGivenBack) {
  Disk disk;
  ControlStore core;
  Turn turn = 0;
  RequestId request = 0;
  for (const char* line : {"join n1 cpu=1", "open_job j", "spawn 1: 1.1 cpu=1 restarts=-1; 1.2 cpu=1",
                           "kill 1.1 restart", "destroyed 1 1.1#1"}) {
    Actions out;
    core.begin_turn(++turn);
    core.apply(script::parse(line, ++request), 0, out);
    disk.write(core, out);
  }
  const ActorId second = actor_of({1}, 2);
  ASSERT_EQ(core.actor(second)->phase, Phase::starting);
  ControlStore next;
  Actions out;
  next.begin_turn(1);
  next.restore(disk.snapshot(), 0, out);
  EXPECT_EQ(next.check(), "");
  EXPECT_EQ(next.actor(second)->phase, Phase::starting);
  EXPECT_EQ(next.actor(second)->node, NodeId{1});
}

}  // namespace
}  // namespace troupe::gcs
