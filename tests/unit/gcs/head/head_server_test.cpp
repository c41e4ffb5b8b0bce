#include "gcs/head/head_server.h"

#include "cluster_fixture.h"

namespace troupe::gcs {
namespace {

class HeadServerTest : public ClusterTest {
 protected:
  void SetUp() override { start(); }
};

TEST_F(HeadServerTest, SpawnsPlacesAndTellsTheDriver) {
  auto node = joined("n1", 4);
  auto driver = opened();
  EXPECT_EQ(spawn(*driver, {{1}, {2}, {3}}).wait(scope_), "");
  settle();
  ASSERT_EQ(node->log.placed.size(), 3u);
  EXPECT_EQ(node->log.place_calls, 1);
  EXPECT_EQ(node->log.calls.front(), "startJob 1");
  EXPECT_EQ(node->log.placed[0].process, node->log.placed[2].process);
  auto waiting = resolve(*driver, actor_of(driver->process, 2));
  report_alive(*node, node->log.placed).wait(scope_);
  auto state = waiting.wait(scope_);
  EXPECT_EQ(state.getState().getPhase(), wire::ActorPhase::ALIVE);
  EXPECT_STREQ(state.getState().getEndpoint().getUnixPath().cStr(), "/sock");
  EXPECT_STREQ(state.getState().getClassName().cStr(), "Counter");
  settle();
  EXPECT_EQ(driver->log.states.size(), 3u);
  EXPECT_EQ(driver->log.changed_calls, 1);
}

TEST_F(HeadServerTest, NothingIsAcknowledgedOrSentBeforeItIsDurable) {
  auto node = joined("n1", 4);
  auto driver = opened();
  store_.hold();
  auto spawned = spawn(*driver, {{1, 1}});
  settle();
  EXPECT_FALSE(spawned.poll(scope_));
  EXPECT_TRUE(node->log.calls.empty());
  std::size_t before = store_.batches();
  auto more = spawn(*driver, {{2, 1}});
  auto even_more = spawn(*driver, {{3, 1}});
  settle();
  EXPECT_EQ(store_.batches(), before);  // one in flight, the rest gathers
  ASSERT_TRUE(store_.finish_one());
  EXPECT_EQ(spawned.wait(scope_), "");
  settle();
  EXPECT_EQ(node->log.placed.size(), 1u);
  EXPECT_FALSE(more.poll(scope_));
  EXPECT_EQ(store_.batches(), before + 1);
  ASSERT_TRUE(store_.finish_one());
  EXPECT_EQ(more.wait(scope_), "");
  EXPECT_EQ(even_more.wait(scope_), "");
}

// A failover that lost the end of what was acknowledged: the head's memory is the truth.
TEST_F(HeadServerTest, AStoreThatLostItsEndIsWrittenAnew) {
  auto node = joined("n1", 4);
  auto driver = opened();
  spawn(*driver, {{1, 1, false}, {2, 0, true, "named"}}).wait(scope_);
  auto nodes = store_.table(StoreTable::nodes);
  auto actors = store_.table(StoreTable::actors);
  auto counters = store_.table(StoreTable::counters);
  ASSERT_EQ(actors.size(), 2u);
  store_.lose_everything();
  EXPECT_EQ(store_.table(StoreTable::nodes), nodes);
  EXPECT_EQ(store_.table(StoreTable::actors), actors);
  EXPECT_EQ(store_.table(StoreTable::jobs).size(), 1u);
  for (const auto& [key, value] : counters) EXPECT_EQ(store_.table(StoreTable::counters).at(key), value);
}

TEST_F(HeadServerTest, ReadsGoOnAndChangesFailWhileTheStoreIsAway) {
  auto node = joined("n1", 4);
  auto driver = opened();
  spawn(*driver, {{1, 0, true, "known"}}).wait(scope_);
  settle();
  report_alive(*node, node->log.placed).wait(scope_);
  store_.hold();
  auto lost = spawn(*driver, {{2}});
  settle();
  EXPECT_EQ(resolve(*driver, actor_of(driver->process, 1)).wait(scope_).getState().getPhase(),
            wire::ActorPhase::ALIVE);
  auto find = driver->hold().findRequest();
  find.setName("known");
  EXPECT_EQ(find.send().wait(scope_).getState().getActor(), actor_of(driver->process, 1).value);
  ASSERT_TRUE(store_.fail_one(Error(ErrorKind::unavailable, "redis is away")));
  auto error = error_from([&] { lost.wait(scope_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::unavailable);
  EXPECT_EQ(node->log.placed.size(), 1u);
  // When it is back, the same spawn sent again is one actor, placed once.
  store_.resume();
  auto again = spawn(*driver, {{2}});
  advance(2 * kj::SECONDS);
  EXPECT_EQ(again.wait(scope_), "");
  settle();
  EXPECT_EQ(node->log.placed.size(), 2u);
  EXPECT_EQ(store_.table(StoreTable::actors).size(), 2u);
}

// A minute in which each write is given up after 10 s, as RedisStore does.
TEST_F(HeadServerTest, AMinuteWithoutAStoreLosesNoNodeAndEndsEachRequest) {
  auto node = joined("n1", 4);
  auto driver = opened();
  spawn(*driver, {{1, 0, true, "known"}}).wait(scope_);
  settle();
  report_alive(*node, node->log.placed).wait(scope_);
  store_.hold();
  std::uint64_t next = 1;
  int failed = 0;
  for (int second = 0; second < 60; second += 10) {
    auto waiting = spawn(*driver, {{++next}});
    for (int i = 0; i < 40; ++i) {
      advance(250 * kj::MILLISECONDS);
      node->hold().heartbeatRequest().send().wait(scope_);
      auto find = driver->hold().findRequest();
      find.setName("known");
      EXPECT_EQ(find.send().wait(scope_).getState().getPhase(), wire::ActorPhase::ALIVE);
    }
    EXPECT_FALSE(waiting.poll(scope_));
    ASSERT_TRUE(store_.fail_one(Error(ErrorKind::unavailable, "redis is away")));
    auto error = error_from([&] { waiting.wait(scope_); });
    ASSERT_TRUE(error);
    failed += error->kind == ErrorKind::unavailable;
  }
  EXPECT_EQ(failed, 6);
  EXPECT_EQ(head_->core().node(node->id)->phase, NodePhase::alive);
  store_.resume();
  advance(2 * kj::SECONDS);
  for (std::uint64_t n = 2; n <= next; ++n) EXPECT_EQ(spawn(*driver, {{n}}).wait(scope_), "");
  settle();
  EXPECT_EQ(store_.table(StoreTable::actors).size(), next);
  EXPECT_EQ(node->log.placed.size(), next);  // each once
  EXPECT_EQ(head_->core().check(), "");
}

TEST_F(HeadServerTest, AJobEndsWithItsDriversConnection) {
  auto node = joined("n1", 4);
  auto driver = opened();
  spawn(*driver, {{1, 1, false}, {2}}).wait(scope_);
  settle();
  auto waiting =
      resolve(*driver, actor_of(driver->process, 1));  // a parked call must not keep the session alive
  settle();
  JobId job = driver->job;
  { auto gone = kj::mv(driver); }
  settle();
  EXPECT_TRUE(head_->core().job(job)->ended);
  EXPECT_EQ(node->log.calls.back(), "endJob 1");
  settle();
  EXPECT_EQ(head_->core().placement().live(node->id), 0u);
  EXPECT_EQ(head_->core().count(Phase::dead), 2u);
}

// A driver gives up when it hears that its job has ended. A head that was replaced, and does not know it yet,
// must not tell so of a job whose driver has gone over to its successor.
TEST_F(HeadServerTest, AJobsEndIsToldOnceItIsDurable) {
  auto driver = opened();
  JobId job = driver->job;
  store_.hold();
  { auto gone = kj::mv(driver); }
  settle();
  auto again = kj::heap<Driver>(head_->bootstrap());
  auto opening = open(*again, job);
  settle();
  EXPECT_FALSE(opening.poll(scope_));
  ASSERT_TRUE(store_.finish_one());
  settle();
  while (store_.finish_one()) settle();
  auto error = error_from([&] { opening.wait(scope_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::not_found);
}

TEST_F(HeadServerTest, ANodeIsLostWithItsConnectionAndItsActorsMoveOn) {
  auto first = joined("n1", 4);
  auto driver = opened();
  spawn(*driver, {{1, 1, false, "", 5}}).wait(scope_);
  settle();
  report_alive(*first, first->log.placed).wait(scope_);
  auto second = joined("n2", 4);
  { auto gone = kj::mv(first); }
  settle();
  ASSERT_EQ(second->log.placed.size(), 1u);
  EXPECT_EQ(second->log.placed[0].incarnation, 2u);
  EXPECT_EQ(phase(*driver, 1), wire::ActorPhase::STARTING);
}

TEST_F(HeadServerTest, ASilentNodeIsLostAndToldSo) {
  auto node = joined("n1", 4);
  auto talking = joined("n2", 4);
  for (int i = 0; i < 16; ++i) {
    advance(400 * kj::MILLISECONDS);
    talking->hold().heartbeatRequest().send().wait(scope_);
  }
  EXPECT_EQ(head_->core().node(node->id)->phase, NodePhase::dead);
  EXPECT_EQ(head_->core().node(talking->id)->phase, NodePhase::alive);
  auto error = error_from([&] { node->hold().heartbeatRequest().send().wait(scope_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::not_found);
}

// Short of processor time, not dead: its heartbeats come ever later.
TEST_F(HeadServerTest, ANodeThatBeatsLateIsGivenTime) {
  auto node = joined("n1", 4);
  for (int pause : {3, 5, 8, 14, 20, 20}) {
    for (int i = 0; i < pause; ++i) advance(100 * kj::MILLISECONDS);
    node->hold().heartbeatRequest().send().wait(scope_);
  }
  EXPECT_EQ(head_->core().node(node->id)->phase, NodePhase::alive);
  for (int i = 0; i < 32; ++i) advance(100 * kj::MILLISECONDS);
  EXPECT_EQ(head_->core().node(node->id)->phase, NodePhase::dead);
}

TEST_F(HeadServerTest, AHeadThatWasStoppedDoesNotBlameItsNodes) {
  auto node = joined("n1", 4);
  advance(400 * kj::MILLISECONDS);
  advance(60 * kj::SECONDS);
  node->hold().heartbeatRequest().send().wait(scope_);
  EXPECT_EQ(head_->core().node(node->id)->phase, NodePhase::alive);
}

TEST_F(HeadServerTest, ADestroyIsRepeatedUntilItIsDone) {
  auto node = joined("n1", 1);
  auto driver = opened();
  spawn(*driver, {{1, 1, false}, {2, 1, false}}).wait(scope_);
  settle();
  node->log.refuse_destroy = true;
  auto kill = driver->hold().killRequest();
  kill.setActor(actor_of(driver->process, 1).value);
  kill.setNoRestart(true);
  kill.send().wait(scope_);
  settle();
  EXPECT_EQ(phase(*driver, 1), wire::ActorPhase::DEAD);
  EXPECT_EQ(phase(*driver, 2), wire::ActorPhase::PENDING);  // what the first held is not free yet
  node->log.refuse_destroy = false;
  for (int i = 0; i < 3; ++i) {
    advance(500 * kj::MILLISECONDS);
    node->hold().heartbeatRequest().send().wait(scope_);
  }
  EXPECT_EQ(node->log.destroyed, std::vector<ActorId>{actor_of(driver->process, 1)});
  EXPECT_EQ(phase(*driver, 2), wire::ActorPhase::STARTING);
}

TEST_F(HeadServerTest, OutputGoesToTheDriver) {
  auto node = joined("n1", 1);
  auto driver = opened();
  auto request = node->hold().reportRequest();
  auto output = request.initEvents(1)[0].initOutput();
  output.setJob(driver->job.value);
  auto lines = output.initLines(2);
  lines.set(0, "one");
  lines.set(1, "two");
  request.send().wait(scope_);
  settle();
  EXPECT_EQ(driver->log.lines, (std::vector<std::string>{"one", "two"}));
}

TEST_F(HeadServerTest, WorkersHaveSessions) {
  auto node = joined("n1", 1);
  auto driver = opened();
  spawn(*driver, {{1}}).wait(scope_);
  settle();
  ClientLog log;
  auto request = node->hold().workerSessionRequest();
  request.setProcess(node->log.placed.at(0).process.value);
  request.setClient(kj::heap<FakeClient>(log));
  auto session = request.send().wait(scope_).getSession();
  EXPECT_EQ(session.nodesRequest().send().wait(scope_).getNodes().size(), 1u);
  auto wrong = node->hold().workerSessionRequest();
  wrong.setProcess(999);
  wrong.setClient(kj::heap<FakeClient>(log));
  EXPECT_TRUE(error_from([&] { wrong.send().wait(scope_); }));
}

TEST_F(HeadServerTest, AdminSeesKillsAndEndsEverything) {
  auto node = joined("n1", 1);
  auto driver = opened();
  spawn(*driver, {{1, 1, false, "a"}, {2, 9, false}, {3}}).wait(scope_);
  settle();
  Peer peer(head_->bootstrap());
  auto console = admin(peer);
  auto status = console.statusRequest().send().wait(scope_);
  auto cluster = status.getCluster();
  EXPECT_EQ(cluster.getNodes().size(), 1u);
  EXPECT_EQ(cluster.getStarting(), 2u);
  EXPECT_EQ(cluster.getPending(), 1u);
  ASSERT_EQ(cluster.getWarnings().size(), 1u);
  EXPECT_NE(std::string(cluster.getWarnings()[0].cStr()).find("could ever hold cpu 9"), std::string::npos);
  auto logs = console.logsRequest();
  logs.setTarget("a");
  EXPECT_NE(std::string(logs.send().wait(scope_).getText().cStr()).find("log of process"), std::string::npos);
  auto kill = console.killRequest();
  kill.setTarget("a");
  kill.setNoRestart(true);
  kill.send().wait(scope_);
  EXPECT_EQ(phase(*driver, 1), wire::ActorPhase::DEAD);
  auto bad = console.killRequest();
  bad.setTarget("no-such");
  auto error = error_from([&] { bad.send().wait(scope_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::not_found);
  auto listing = console.actorsRequest();
  listing.setLimit(2);
  auto actors = listing.send().wait(scope_);
  EXPECT_EQ(actors.getTotal(), 3u);
  EXPECT_EQ(actors.getActors().size(), 2u);
  auto end = head_->shutdown_requested();
  console.shutdownRequest().send().wait(scope_);
  end.wait(scope_);
  EXPECT_EQ(node->log.calls.back(), "shutdown");
  EXPECT_EQ(head_->core().count(Phase::dead), 3u);
}

TEST_F(HeadServerTest, AfterARestartEveryOperationWorksOnSurvivors) {
  auto node = joined("n1", 4, 42);
  auto driver = opened();
  spawn(*driver, {{1, 1, false, "survivor"}, {2}}).wait(scope_);
  settle();
  report_alive(*node, node->log.placed).wait(scope_);
  std::vector<Placed> before = node->log.placed;
  NodeId id = node->id;
  JobId job = driver->job;
  head_ = nullptr;
  start();
  auto back = joined("n1", 4, 42);
  EXPECT_EQ(back->id, id);
  auto again = kj::heap<Driver>(head_->bootstrap());
  open(*again, job).wait(scope_);
  EXPECT_EQ(again->job, job);
  EXPECT_EQ(again->process, driver->process);
  settle();
  ASSERT_EQ(back->log.placed.size(), 2u);  // told again; the agent answers what runs
  for (const Placed& placed : back->log.placed) EXPECT_EQ(placed.incarnation, 1u);
  report_alive(*back, before).wait(scope_);
  auto find = again->hold().findRequest();
  find.setName("survivor");
  EXPECT_EQ(find.send().wait(scope_).getState().getPhase(), wire::ActorPhase::ALIVE);
  auto kill = again->hold().killRequest();
  kill.setActor(actor_of(driver->process, 1).value);
  kill.setNoRestart(true);
  kill.send().wait(scope_);
  settle();
  EXPECT_EQ(back->log.destroyed.size(), 1u);
  spawn(*again, {{3, 4, false}}).wait(scope_);
  EXPECT_EQ(phase(*again, 3), wire::ActorPhase::STARTING);
}

// Its actors are placed anew: whoever has a link there must not listen to the old ones.
TEST_F(HeadServerTest, ANodeThatDoesNotComeBackIsToldToAllClients) {
  auto node = joined("n1", 4, 42);
  auto driver = opened();
  spawn(*driver, {{1, 1, false}}).wait(scope_);
  NodeId id = node->id;
  JobId job = driver->job;
  head_ = nullptr;
  start();
  auto again = kj::heap<Driver>(head_->bootstrap());
  open(*again, job).wait(scope_);
  EXPECT_TRUE(again->log.gone.empty());
  advance(31 * kj::SECONDS);
  EXPECT_EQ(again->log.gone, std::vector<NodeId>{id});
}

// A store that is away for a moment costs nobody his place.
TEST_F(HeadServerTest, AReturnThatCouldNotBeRecordedIsTriedAgain) {
  auto node = joined("n1", 4, 42);
  auto driver = opened();
  spawn(*driver, {{1, 1, false}}).wait(scope_);
  settle();
  report_alive(*node, node->log.placed).wait(scope_);
  NodeId id = node->id;
  JobId job = driver->job;
  head_ = nullptr;
  start();
  store_.hold();
  auto back = kj::heap<Node>(head_->bootstrap());
  auto again = kj::heap<Driver>(head_->bootstrap());
  auto joining = join(*back, "n1", 4, 42);
  auto opening = open(*again, job);
  settle();
  while (store_.fail_one(Error(ErrorKind::unavailable, "redis is away"))) settle();
  EXPECT_TRUE(error_from([&] { joining.wait(scope_); }));
  EXPECT_TRUE(error_from([&] { opening.wait(scope_); }));
  EXPECT_EQ(head_->core().node(id)->phase, NodePhase::awaited);
  EXPECT_TRUE(head_->core().job(job)->awaited);
  store_.resume();
  advance(2 * kj::SECONDS);
  auto returned = joined("n1", 4, 42);
  EXPECT_EQ(returned->id, id);
  auto third = kj::heap<Driver>(head_->bootstrap());
  open(*third, job).wait(scope_);
  EXPECT_EQ(third->job, job);
  EXPECT_EQ(phase(*third, 1), wire::ActorPhase::STARTING);
}

// It has nothing to write, so it would not hear of its successor; what it knows may be long past.
TEST_F(HeadServerTest, AHeadThatWasReplacedTakesNobodyBack) {
  auto node = joined("n1", 4, 42);
  auto driver = opened();
  spawn(*driver, {{1, 1, false}}).wait(scope_);
  JobId job = driver->job;
  head_ = nullptr;
  start();
  store_.fence();
  auto back = kj::heap<Node>(head_->bootstrap());
  auto refused = error_from([&] { join(*back, "n1", 4, 42).wait(scope_); });
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->message.find("no longer owns"), std::string::npos) << refused->message;
  settle();
  EXPECT_TRUE(back->log.calls.empty());
  auto again = kj::heap<Driver>(head_->bootstrap());
  EXPECT_TRUE(error_from([&] { open(*again, job).wait(scope_); }));
}

TEST_F(HeadServerTest, AnUnreadableRecordIsQuarantined) {
  auto node = joined("n1", 4);
  store_.put(StoreTable::actors, "12345", "this is no record");
  store_.put(StoreTable::nodes, "not a number", "");
  head_ = nullptr;
  start();
  EXPECT_EQ(store_.table(StoreTable::quarantine).size(), 2u);
  EXPECT_EQ(store_.table(StoreTable::actors).size(), 0u);
  EXPECT_EQ(store_.table(StoreTable::nodes).size(), 1u);
  Peer peer(head_->bootstrap());
  auto status = admin(peer).statusRequest().send().wait(scope_);
  EXPECT_EQ(status.getCluster().getWarnings().size(), 1u);
}

TEST_F(HeadServerTest, ServersThatOutliveTheHeadFail) {
  auto driver = opened();
  auto session = driver->hold();
  head_ = nullptr;
  auto error = error_from([&] { session.nodesRequest().send().wait(scope_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace troupe::gcs
