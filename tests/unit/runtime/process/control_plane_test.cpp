#include "runtime/process/control_plane.h"

#include <gtest/gtest.h>

#include "core/control/loop.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"
#include "runtime/process/participant.h"
#include "runtime/process/wire_types.h"

namespace troupe {
namespace {

// A head that answers spawns when the test says so.
class Session final : public wire::Session::Server {
 public:
  struct Log {
    int questions = 0;
    std::vector<std::uint64_t> spawned;
    kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> answers;
  };
  explicit Session(Log& log) : log_(log) {}
  kj::Promise<void> spawn(SpawnContext context) override {
    std::uint64_t actor = context.getParams().getActors()[0].getActor();
    log_.spawned.push_back(actor);
    auto pair = kj::newPromiseAndFulfiller<void>();
    log_.answers.add(kj::mv(pair.fulfiller));
    return pair.promise.then(
        [context, actor]() mutable { context.getResults().initSpawned(1)[0].setActor(actor); });
  }
  kj::Promise<void> resolve(ResolveContext) override {
    ++log_.questions;
    return kj::NEVER_DONE;
  }

 private:
  Log& log_;
};

class ControlPlaneTest : public ::testing::Test {
 public:
  ~ControlPlaneTest() noexcept override {}  // its members' may throw, gtest's must not

 protected:
  void SetUp() override {
    LaneOptions lane;
    lane.ring = [] {};
    participant_.lanes().push_back(std::make_unique<Lane>(lane, participant_));
    LinkIdentity self;
    self.process = {7};
    Participant::Outside outside;
    outside.connect = [this](const Place& place, const LinkIdentity&,
                             Lane&) -> kj::Promise<kj::Own<std::unique_ptr<Link>>> {
      connects_.push_back(place.process);
      return kj::NEVER_DONE;
    };
    participant_.start(loop_, self, std::move(outside));
    participant_.plane().use_session(kj::heap<Session>(log_));
  }
  void TearDown() override {
    participant_.lanes().front()->stop("the test is over");
    participant_.stop();
    participant_.lanes().clear();
  }
  void settle() {
    for (int round = 0; round < 10; ++round) {
      auto posted = kj::newPromiseAndFulfiller<void>();
      loop_.post([&posted] { posted.fulfiller->fulfill(); });  // after what was posted before
      posted.promise.wait(loop_.scope());
      for (int i = 0; i < 20; ++i) kj::Promise<void>(kj::evalLater([] {})).wait(loop_.scope());
      participant_.lanes().front()->step([](int) { return false; });
    }
  }
  void call(ActorId actor) {
    Lane& lane = *participant_.lanes().front();
    lane.post_function([&lane, actor] {
      lane.routes().submit_encoded(lane.routes().of(actor), std::make_unique<QueuedCall>());
    });
    settle();
  }
  void tell_alive(ActorId actor) {
    auto request = participant_.plane().client().changedRequest();
    auto state = request.initStates(1)[0];
    state.setActor(actor.value);
    state.setIncarnation(1);
    state.setPhase(wire::ActorPhase::ALIVE);
    Place place;
    place.process = {9};
    write_place(state.initEndpoint(), place);
    request.send().wait(loop_.scope());
  }

  ControlLoop loop_;
  Participant participant_;
  Session::Log log_;
  std::vector<ProcessId> connects_;
};

// A spawn that had to be asked for again, since the store did not answer, may be answered after the head has
// told that the actor is alive. It tells that once.
TEST_F(ControlPlaneTest, NewsOfANamedActorMayComeBeforeItsSpawnIsAnswered) {
  SpawnRequest request;
  request.class_name = "Counter";
  request.name = "known";
  std::optional<ActorId> spawned;
  participant_.spawn_named(std::move(request), [&](Result<ActorId> answer) {
    ASSERT_TRUE(answer) << answer.error().describe();
    spawned = *answer;
  });
  settle();
  ASSERT_EQ(log_.spawned.size(), 1u);
  tell_alive({log_.spawned[0]});
  log_.answers[0]->fulfill();
  settle();
  ASSERT_TRUE(spawned);
  EXPECT_EQ(spawned->value, log_.spawned[0]);
  call(*spawned);
  EXPECT_EQ(connects_, std::vector<ProcessId>{ProcessId{9}});
  EXPECT_EQ(log_.questions, 0);
}

// One that another has made is asked about.
TEST_F(ControlPlaneTest, ActorsOfOthersAreAskedAbout) {
  call(actor_of({3}, 1));
  EXPECT_EQ(log_.questions, 1);
  EXPECT_TRUE(connects_.empty());
}

// An incarnation whose method goes on after its end leaves the group when the next one is in it.
TEST_F(ControlPlaneTest, AnOldIncarnationLeavesItsOwnPlaceInAGroupOnly) {
  ActorId actor = actor_of({3}, 1);
  GroupJoinRequest join;
  join.group = 5;
  join.members = {actor};
  join.actor = actor;
  join.incarnation = 2;
  int broken = 0;
  GroupClient& groups = participant_.plane().groups();
  groups.join(
      join, [](Result<GroupFormed>) {}, [&](std::uint64_t, std::uint32_t, const Error&) { ++broken; });
  settle();
  groups.leave(5, actor, 1);
  groups.broken(5, 1, 0, Error(ErrorKind::actor_died, "a rank died"));
  EXPECT_EQ(broken, 1);
  groups.leave(5, actor, 2);
  groups.broken(5, 2, 0, Error(ErrorKind::actor_died, "a rank died"));
  EXPECT_EQ(broken, 1);
}

}  // namespace
}  // namespace troupe
