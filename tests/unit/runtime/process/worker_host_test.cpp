#include "runtime/process/worker_host.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "core/control/loop.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/call_state.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

// What an agent has been given and told.
struct Known {
  kj::Maybe<wire::JobClient::Client> client;
  kj::Maybe<wire::Worker::Client> worker;
  std::vector<std::string> reports;
};

// An agent that takes every worker.
class Agent final : public wire::WorkerHost::Server {
 public:
  explicit Agent(Known& known) : known_(known) {}
  kj::Promise<void> register_(RegisterContext context) override {
    known_.client = context.getParams().getClient();
    known_.worker = context.getParams().getWorker();
    return kj::READY_NOW;
  }
  kj::Promise<void> report(ReportContext context) override {
    for (auto event : context.getParams().getEvents()) {
      bool alive = event.isActorAlive();
      auto of = alive ? event.getActorAlive().getOf() : event.getActorFailed().getOf();
      known_.reports.push_back((alive ? "alive " : "failed ") + std::to_string(of.getIncarnation()));
    }
    return kj::READY_NOW;
  }

 private:
  Known& known_;
};

// An actor whose first constructor waits until it is let go.
class Signal final : public CallState {
 public:
  using CallState::CallState;

 private:
  void decode_value(Reader&) override {}
};
std::atomic<CallState*> held{nullptr};
std::atomic<int> made{0}, destroyed{0};

const ClassTable kSlow{"Slow",
                       [](Reader&) -> void* {
                         if (made++ == 0) {
                           auto signal = Ref<Signal>::adopt(new Signal(*Lane::current()));
                           signal->retain();
                           held = signal.get();
                           Lane::current()->wait(*signal, 0);
                         }
                         return new int(0);
                       },
                       [](void* object) {
                         ++destroyed;
                         delete static_cast<int*>(object);
                       },
                       {},
                       1};

class Nobody final : public wire::WorkerHost::Server {};

class WorkerHostTest : public ::testing::Test {
 public:
  ~WorkerHostTest() noexcept override {}  // its members' may throw, gtest's must not

 protected:
  void SetUp() override {
    LinkIdentity self;
    self.process = {7};
    participant_.start(loop_, self, {});
    start_.process = 7;
    start_.node = 3;
    start_.node_name = "n3";
    host_ = std::make_unique<WorkerHost>(loop_, participant_, start_);
  }
  void TearDown() override {
    for (auto& lane : participant_.lanes()) lane->stop("the test ends");
    host_ = nullptr;
    participant_.stop();
  }
  void start(wire::WorkerHost::Client agent) {
    host_->start(Place(), kj::mv(agent), [this](const std::string& why) { gave_up_.push_back(why); });
    settle();
  }
  void settle() {
    for (int i = 0; i < 20; ++i) kj::Promise<void>(kj::evalLater([] {})).wait(loop_.scope());
  }
  void tell_lost(std::uint64_t node) {
    KJ_IF_MAYBE (client, known_.client) {
      auto request = client->nodeLostRequest();
      request.setNode(node);
      request.send().wait(loop_.scope());
    }
  }

  // ---- an actor of the class Slow on a light lane ----
  void start_slow() {
    made = destroyed = 0;
    held = nullptr;
    const ClassTable* tables[] = {&kSlow};
    (void)register_classes(tables);
    LaneOptions options;
    options.hand_off = true;
    participant_.lanes().push_back(std::make_unique<Lane>(options, participant_));
    participant_.lanes().front()->start();
    start(kj::heap<Agent>(known_));
  }
  void await(const std::function<bool()>& done) {
    while (!done()) loop_.timer().afterDelay(1 * kj::MILLISECONDS).wait(loop_.scope());
  }
  void place(std::uint32_t incarnation) {
    KJ_IF_MAYBE (worker, known_.worker) {
      auto request = worker->placeRequest();
      auto one = request.initPlacements(1)[0];
      one.initSpec().setActor(kActor.value);
      one.getSpec().setClassName("Slow");
      one.setIncarnation(incarnation);
      request.send().wait(loop_.scope());
    }
  }
  void destroy(std::uint32_t incarnation) {
    KJ_IF_MAYBE (worker, known_.worker) {
      auto request = worker->destroyRequest();
      auto one = request.initActors(1)[0];
      one.setActor(kActor.value);
      one.setIncarnation(incarnation);
      request.send().wait(loop_.scope());
    }
  }
  // Lets the constructor go that waits, and waits for what it leads to.
  void let_go() {
    Lane& lane = *participant_.lanes().front();
    lane.post_function([] {
      CallState* signal = held;
      signal->finish_value();
      signal->release();
    });
  }
  std::uint32_t on_lane() {  // the incarnation there, or 0
    std::promise<std::uint32_t> found;
    Lane& lane = *participant_.lanes().front();
    lane.post_function([&] {
      auto at = lane.actors().find(kActor);
      found.set_value(at == lane.actors().end() ? 0 : at->second->identity().incarnation);
    });
    return found.get_future().get();
  }

  static constexpr ActorId kActor{77};
  ControlLoop loop_;
  Participant participant_;
  WorkerStart start_;
  Known known_;
  std::unique_ptr<WorkerHost> host_;
  std::vector<std::string> gave_up_;
};

TEST_F(WorkerHostTest, GivesUpWhenTheNodeRefusesIt) {
  start(kj::heap<Nobody>());
  ASSERT_EQ(gave_up_.size(), 1u);
  EXPECT_NE(gave_up_[0].find("refused this worker"), std::string::npos) << gave_up_[0];
}

// Its actors run elsewhere from then on. Its agent hears of it too, but perhaps later.
TEST_F(WorkerHostTest, GivesUpWhenItsOwnNodeIsLost) {
  start(kj::heap<Agent>(known_));
  ASSERT_TRUE(known_.client != nullptr);
  tell_lost(2);
  EXPECT_TRUE(gave_up_.empty());
  tell_lost(3);
  ASSERT_EQ(gave_up_.size(), 1u);
  EXPECT_NE(gave_up_[0].find("node n3 lost"), std::string::npos) << gave_up_[0];
}

// Its constructor waits, and its lane is lent to others meanwhile.
TEST_F(WorkerHostTest, AnActorThatIsEndedInItsConstructorDoesNotStay) {
  start_slow();
  place(1);
  await([] { return held != nullptr; });
  destroy(1);
  let_go();
  await([] { return destroyed == 1; });
  settle();
  EXPECT_EQ(on_lane(), 0u);
  EXPECT_TRUE(known_.reports.empty()) << known_.reports.front();
}

TEST_F(WorkerHostTest, AnActorThatIsEndedInItsConstructorLeavesItsPlaceToTheNext) {
  start_slow();
  place(1);
  await([] { return held != nullptr; });
  destroy(1);
  place(2);
  await([&] { return !known_.reports.empty(); });
  let_go();
  await([] { return destroyed == 1; });
  destroy(1);  // repeated
  settle();
  EXPECT_EQ(on_lane(), 2u);
  EXPECT_EQ(known_.reports, std::vector<std::string>{"alive 2"});
  destroy(2);
  await([] { return destroyed == 2; });
}

}  // namespace
}  // namespace troupe
