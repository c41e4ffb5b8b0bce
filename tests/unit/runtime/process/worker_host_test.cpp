#include "runtime/process/worker_host.h"

#include <gtest/gtest.h>

#include "core/control/loop.h"

namespace troupe {
namespace {

// An agent that takes every worker and keeps what it was given to tell news through.
class Agent final : public wire::WorkerHost::Server {
 public:
  explicit Agent(kj::Maybe<wire::JobClient::Client>& client) : client_(client) {}
  kj::Promise<void> register_(RegisterContext context) override {
    client_ = context.getParams().getClient();
    return kj::READY_NOW;
  }

 private:
  kj::Maybe<wire::JobClient::Client>& client_;
};

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
    KJ_IF_MAYBE (client, client_) {
      auto request = client->nodeLostRequest();
      request.setNode(node);
      request.send().wait(loop_.scope());
    }
  }

  ControlLoop loop_;
  Participant participant_;
  WorkerStart start_;
  kj::Maybe<wire::JobClient::Client> client_;
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
  start(kj::heap<Agent>(client_));
  ASSERT_TRUE(client_ != nullptr);
  tell_lost(2);
  EXPECT_TRUE(gave_up_.empty());
  tell_lost(3);
  ASSERT_EQ(gave_up_.size(), 1u);
  EXPECT_NE(gave_up_[0].find("node n3 lost"), std::string::npos) << gave_up_[0];
}

}  // namespace
}  // namespace troupe
