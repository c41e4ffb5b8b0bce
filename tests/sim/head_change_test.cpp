// With which head drivers and nodes stay, at simulated time.
#include <gtest/gtest.h>

#include "runtime/agent/node_agent.h"
#include "runtime/lane/lane.h"
#include "runtime/process/driver_session.h"
#include "runtime/process/participant.h"
#include "tests/sim/fake_head.h"
#include "tests/sim/folder.h"
#include "tests/sim/sim_process.h"

namespace troupe::sim {
namespace {

class Base : public ::testing::Test {
 public:
  ~Base() noexcept override {}  // its members' may throw, gtest's must not

 protected:
  void pass(Micros time) {
    Micros until = time_.now() + time;
    time_.settle();
    while (time_.step(until)) {
    }
  }

  VirtualTime time_;
  SimProcess process_{time_, [](const std::string&) {}};
  FakeHeads heads_;
};

class OfDriver : public Base {
 public:
  ~OfDriver() noexcept override {}

 protected:
  void SetUp() override {
    LaneOptions lane;
    lane.ring = [] {};
    participant_.lanes().push_back(std::make_unique<Lane>(lane, participant_));
    Participant::Outside outside;
    outside.connect = [](const Place&, const LinkIdentity&,
                         Lane&) -> kj::Promise<kj::Own<std::unique_ptr<Link>>> { return kj::NEVER_DONE; };
    participant_.start(process_, LinkIdentity(), std::move(outside));
    session_ = std::make_unique<DriverSession>(
        process_, participant_.plane(),
        DriverSession::Hooks{[this] { return heads_.connect(); }, [](wire::JobInfo::Builder) {},
                             [this] { return participant_.plane().client(); }, [](JobId, ProcessId) {}});
    heads_.serves();
    process_.spawn("entering", session_->enter());
    pass(kSecond);
    heads_.dies();
  }
  void TearDown() override {
    session_ = nullptr;
    participant_.lanes().front()->stop("the test is over");
    participant_.stop();
    participant_.lanes().clear();
    heads_.end();
  }

  Participant participant_;
  std::unique_ptr<DriverSession> session_;
};

class OfNode : public Base {
 public:
  ~OfNode() noexcept override {}

 protected:
  void SetUp() override {
    NodeAgent::Options options(*Token::parse(std::string(64, 'a')));
    options.name = "n1";
    options.resources = Resources();
    options.state = sim_folder() + "/head_change";
    options.launcher = "/none";
    options.host_id = "host-n1";
    options.pid = 10'000'000;
    options.reconnect = [this] { return heads_.connect(); };
    options.starter = [](SpawnOptions, Starter::Callbacks) -> Result<std::unique_ptr<Starter>> {
      return Error(ErrorKind::unavailable, "no worker is asked for");
    };
    agent_ = kj::heap<NodeAgent>(static_cast<Executor&>(process_), kj::mv(options));
    heads_.serves();
    process_.spawn("joining", heads_.connect().then([this](kj::Own<RpcConnection> head) {
      return agent_->join(kj::mv(head));
    }));
    pass(kSecond);
    heads_.dies();
  }
  void TearDown() override {
    agent_ = nullptr;
    heads_.end();
  }

  kj::Own<NodeAgent> agent_;
};

template <class T>
class HeadChange : public T {};
using Both = ::testing::Types<OfDriver, OfNode>;
struct Names {
  template <class T>
  static std::string GetName(int) {
    return std::is_same_v<T, OfDriver> ? "Driver" : "Node";
  }
};
TYPED_TEST_SUITE(HeadChange, Both, Names);

TYPED_TEST(HeadChange, TheNextHeadIsFound) {
  this->pass(5 * kSecond);
  FakeHead& next = this->heads_.serves();
  this->pass(10 * kSecond);
  EXPECT_EQ(next.asked, 1);
}

// It hangs before it has opened the job, or taken the node in. The attempt there fails when it is left, and
// must not begin another.
TYPED_TEST(HeadChange, ASilentHeadIsLeftForOneThatAnswers) {
  FakeHead& hangs = this->heads_.serves(true);
  this->pass(kSecond);
  EXPECT_EQ(hangs.asked, 1);
  FakeHead& other = this->heads_.serves();
  this->pass(20 * kSecond);
  EXPECT_EQ(hangs.asked, 1);
  EXPECT_EQ(other.asked, 1);
}

// The watch had reached another head, and waited for the silent one's last chance, when that one's connection
// broke.
TYPED_TEST(HeadChange, AHeadIsNotLeftForTheSilenceOfTheOneBefore) {
  FakeHead& hangs = this->heads_.serves(true);
  this->pass(2600 * kMilli);
  EXPECT_EQ(hangs.asked, 1);
  this->heads_.dies();
  FakeHead& healthy = this->heads_.serves();
  this->pass(20 * kSecond);
  EXPECT_EQ(healthy.asked, 1);
}

}  // namespace
}  // namespace troupe::sim
