// Journals of durable actors in the store: who may write, what a reader finds, when they go.
#include "cluster_fixture.h"

namespace troupe::gcs {
namespace {

class JournalTest : public ClusterTest {
 protected:
  ~JournalTest() noexcept override {}
  void SetUp() override {
    start();
    node_ = joined("n1", 4);
    driver_ = opened();
    auto request = driver_->hold().spawnRequest();
    auto spec = request.initActors(1)[0];
    spec.setActor(actor_of(driver_->process, 1).value);
    spec.setClassName("Saved");
    spec.initOptions().setMaxRestarts(-1);
    spec.getOptions().initDurability().setPlace(wire::JournalPlace::STORE);
    request.send().ignoreResult().wait(scope_);
    settle();
    ASSERT_EQ(node_->log.placed.size(), 1u);
  }
  wire::Session::Client session(const Placed& of) {
    auto request = node_->hold().workerSessionRequest();
    request.setProcess(of.process.value);
    request.setClient(kj::heap<FakeClient>(client_));
    return request.send().wait(scope_).getSession();
  }
  kj::Promise<void> append(wire::Session::Client& to, const Placed& as, std::uint64_t first,
                           const char* bytes) {
    auto request = to.journalAppendRequest();
    request.setActor(as.actor.value);
    request.setIncarnation(as.incarnation);
    request.getBlock().setFirst(first);
    request.getBlock().setBytes(kj::StringPtr(bytes).asBytes());
    return request.send().ignoreResult();
  }
  // "snapshot@position: blocks"
  std::string load(wire::Session::Client& from, const Placed& as) {
    auto request = from.journalLoadRequest();
    request.setActor(as.actor.value);
    request.setIncarnation(as.incarnation);
    auto answer = request.send().wait(scope_);
    auto text = [](capnp::Data::Reader data) {
      return std::string(reinterpret_cast<const char*>(data.begin()), data.size());
    };
    std::string out = text(answer.getSnapshot()) + "@" + std::to_string(answer.getSnapshotAt()) + ":";
    for (auto block : answer.getBlocks())
      out += " " + std::to_string(block.getFirst()) + "=" + text(block.getBytes());
    return out;
  }
  void process_ended(const Placed& of) {
    auto request = node_->hold().reportRequest();
    auto ended = request.initEvents(1)[0].initProcessEnded();
    ended.setProcess(of.process.value);
    write_failure(ended.initFailure(), Error(ErrorKind::actor_died, "signal 9"));
    request.send().ignoreResult().wait(scope_);
    settle();
  }

  ClientLog client_;
  kj::Own<Node> node_;
  kj::Own<Driver> driver_;
};

TEST_F(JournalTest, KeepsBlocksAndSnapshots) {
  Placed first = node_->log.placed[0];
  auto worker = session(first);
  EXPECT_EQ(load(worker, first), "@0:");
  append(worker, first, 1, "one").wait(scope_);
  append(worker, first, 9, "nine").wait(scope_);
  append(worker, first, 10, "ten").wait(scope_);
  EXPECT_EQ(load(worker, first), "@0: 1=one 9=nine 10=ten");
  auto request = worker.journalSnapshotRequest();
  request.setActor(first.actor.value);
  request.setIncarnation(1);
  request.setAt(9);
  request.setImage(kj::StringPtr("image").asBytes());
  auto drop = request.initDrop(2);
  drop.set(0, 1);
  drop.set(1, 9);
  request.send().ignoreResult().wait(scope_);
  EXPECT_EQ(load(worker, first), "image@9: 10=ten");
}

TEST_F(JournalTest, AnOlderIncarnationIsRefused) {
  Placed first = node_->log.placed[0];
  auto worker = session(first);
  report_alive(*node_, {first}).wait(scope_);
  append(worker, first, 1, "one").wait(scope_);
  // This one was let in, but waits for the store when its incarnation ends.
  store_.hold();
  auto late = append(worker, first, 2, "late");
  settle();
  auto request = node_->hold().reportRequest();
  auto ended = request.initEvents(1)[0].initProcessEnded();
  ended.setProcess(first.process.value);
  write_failure(ended.initFailure(), Error(ErrorKind::actor_died, "signal 9"));
  auto reported = request.send().ignoreResult();
  settle();
  store_.resume();
  reported.wait(scope_);
  settle();
  ASSERT_EQ(node_->log.placed.size(), 2u);
  Placed second = node_->log.placed[1];
  auto next = session(second);
  EXPECT_EQ(load(next, second), "@0: 1=one 2=late");
  auto refused = error_from([&] { append(worker, first, 3, "never").wait(scope_); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, ErrorKind::cancelled);
  EXPECT_TRUE(error_from([&] { load(worker, first); }));
  append(next, second, 3, "three").wait(scope_);
  EXPECT_EQ(load(next, second), "@0: 1=one 2=late 3=three");
}

// The client is told what makes it look for the next head, and that its incarnation is none that was given
// up.
TEST_F(JournalTest, AFencedHeadSendsItsClientsToTheNext) {
  Placed first = node_->log.placed[0];
  auto worker = session(first);
  append(worker, first, 1, "one").wait(scope_);
  store_.hold();
  auto waiting = append(worker, first, 2, "two");
  settle();
  store_.fence();
  auto expect_replaced = [&](kj::Promise<void> asked) {
    auto caught = kj::runCatchingExceptions([&] { asked.wait(scope_); });
    KJ_IF_MAYBE (exception, caught) {
      EXPECT_TRUE(connection_lost(*exception)) << exception->getDescription().cStr();
      EXPECT_NE(error_of(*exception).message.find("no longer owns"), std::string::npos);
    } else {
      ADD_FAILURE() << "it was acknowledged";
    }
  };
  expect_replaced(kj::mv(waiting));
  expect_replaced(append(worker, first, 3, "three"));
  expect_replaced(spawn(*driver_, {{2}}).ignoreResult());
}

TEST_F(JournalTest, OneThatLostItsEndIsNotBelievedUntilTheNextSnapshot) {
  Placed first = node_->log.placed[0];
  auto worker = session(first);
  report_alive(*node_, {first}).wait(scope_);
  EXPECT_EQ(load(worker, first), "@0:");
  append(worker, first, 1, "one").wait(scope_);
  store_.lose_everything();
  append(worker, first, 2, "two").wait(scope_);
  auto refused = error_from([&] { load(worker, first); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, ErrorKind::not_found);
  EXPECT_NE(refused->message.find("lost in a failover"), std::string::npos) << refused->message;
  auto request = worker.journalSnapshotRequest();
  request.setActor(first.actor.value);
  request.setIncarnation(1);
  request.setAt(2);
  request.setImage(kj::StringPtr("image").asBytes());
  request.send().ignoreResult().wait(scope_);
  append(worker, first, 3, "three").wait(scope_);
  EXPECT_EQ(load(worker, first), "image@2: 3=three");
}

TEST_F(JournalTest, GoesWithItsActor) {
  Placed first = node_->log.placed[0];
  auto worker = session(first);
  append(worker, first, 1, "one").wait(scope_);
  EXPECT_FALSE(store_.table(StoreTable::journals).empty());
  auto asked = [&] {
    auto request = node_->hold().deadActorsRequest();
    auto list = request.initAsked(2);
    list.set(0, first.actor.value);
    list.set(1, 999'999'999);
    auto answer = request.send().wait(scope_);
    EXPECT_EQ(answer.getUnknown().size(), 1u);
    return answer.getDead().size();
  };
  EXPECT_EQ(asked(), 0u);
  auto kill = driver_->hold().killRequest();
  kill.setActor(first.actor.value);
  kill.setNoRestart(true);
  kill.send().ignoreResult().wait(scope_);
  settle();
  EXPECT_TRUE(store_.table(StoreTable::journals).empty());
  EXPECT_EQ(asked(), 1u);
  EXPECT_TRUE(error_from([&] { append(worker, first, 2, "two").wait(scope_); }));
}

}  // namespace
}  // namespace troupe::gcs
