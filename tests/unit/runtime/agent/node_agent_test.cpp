// A node agent with a head played by the test and workers that are real processes.
#include "runtime/agent/node_agent.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/control/kj_error.h"
#include "core/os/process.h"
#include "tests/unit/runtime/agent/role.h"

namespace troupe {
namespace {

struct Seen {
  std::map<std::uint64_t, int> alive;     // actor → pid of its worker
  std::map<std::uint64_t, Error> failed;  // actor → why
  std::map<std::uint64_t, Error> ended;   // process → how
  std::map<std::uint64_t, std::string> output;
  std::map<std::uint64_t, std::uint64_t> lines, dropped;
  int beats = 0, refusals = 0;  // of joins
  kj::Maybe<wire::Agent::Client> agent;
};

class FakeSession final : public wire::Session::Server {};

class FakeMembership final : public wire::Membership::Server {
 public:
  explicit FakeMembership(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  kj::Promise<void> report(ReportContext context) override {
    for (auto event : context.getParams().getEvents()) {
      if (event.isActorAlive()) {
        seen_->alive[event.getActorAlive().getOf().getActor()] =
            event.getActorAlive().getEndpoint().getTcpPort();
      } else if (event.isActorFailed()) {
        seen_->failed[event.getActorFailed().getOf().getActor()] =
            read_failure(event.getActorFailed().getFailure());
      } else if (event.isProcessEnded()) {
        seen_->ended[event.getProcessEnded().getProcess()] =
            read_failure(event.getProcessEnded().getFailure());
      } else {
        auto output = event.getOutput();
        for (auto line : output.getLines())
          seen_->output[output.getProcess()] += std::string(line.cStr()) + "\n";
        seen_->lines[output.getProcess()] += output.getLines().size();
        seen_->dropped[output.getProcess()] += output.getDropped();
      }
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> heartbeat(HeartbeatContext) override {
    ++seen_->beats;
    return kj::READY_NOW;
  }
  kj::Promise<void> workerSession(WorkerSessionContext context) override {
    context.getResults().setSession(kj::heap<FakeSession>());
    return kj::READY_NOW;
  }

 private:
  std::shared_ptr<Seen> seen_;
};

class FakeHead final : public wire::Head::Server {
 public:
  explicit FakeHead(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  kj::Promise<void> join(JoinContext context) override {
    if (seen_->refusals-- > 0) return kj_exception(Error(ErrorKind::unavailable, "the store is away"));
    seen_->agent = context.getParams().getAgent();
    auto results = context.getResults();
    results.setNode(9);
    results.setName("n9");
    results.setMembership(kj::heap<FakeMembership>(seen_));
    return kj::READY_NOW;
  }

 private:
  std::shared_ptr<Seen> seen_;
};

class NodeAgentTest : public ::testing::Test {
 protected:
  NodeAgentTest() {
    char name[] = "/tmp/troupe-agent-XXXXXX";
    folder_ = ::mkdtemp(name);
    auto token = Token::random();
    NodeAgent::Options options(*token);
    options.state = folder_ + "/state";
    (void)options.resources.set("cpu", 2);
    (void)options.resources.set("gpu", 2);
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    head_ = std::make_unique<RpcConnection>(kj::heap<SocketStream>(loop_, UniqueFd(pair[0])),
                                            kj::heap<FakeHead>(seen_), true);
    agent_ = std::make_unique<NodeAgent>(loop_, std::move(options));
    agent_->join(kj::heap<RpcConnection>(kj::heap<SocketStream>(loop_, UniqueFd(pair[1]))))
        .wait(loop_.scope());
  }
  ~NodeAgentTest() override {
    if (!stopped_) stop();
    std::filesystem::remove_all(folder_);
  }
  void stop() {
    stopped_ = true;
    agent_->stop("the test is over");
    agent_->ended().wait(loop_.scope());
    seen_->agent = nullptr;
    agent_.reset();
    head_ = nullptr;
  }

  wire::Agent::Client& to_agent() { return KJ_ASSERT_NONNULL(seen_->agent); }
  void until(const std::function<bool()>& condition) {
    while (!condition()) loop_.timer().afterDelay(1 * kj::MILLISECONDS).wait(loop_.scope());
  }
  void start_job(const std::string& body, const std::string& executable = own_executable(),
                 std::uint64_t fingerprint = test::kFingerprint) {
    auto request = to_agent().startJobRequest();
    auto info = request.initInfo();
    info.setJob(1);
    info.setExecutable(executable.c_str());
    info.setFingerprint(fingerprint);
    auto environment = test::environment_of(body);
    auto list = info.initEnvironment(static_cast<unsigned>(environment.size()));
    for (unsigned i = 0; i < list.size(); ++i) list.set(i, environment[i].c_str());
    request.send().wait(loop_.scope());
  }
  // Actors of that process; the actor's id is its incarnation's too.
  void place(std::uint64_t process, std::vector<std::uint64_t> actors, bool light = false,
             const char* name = "Good") {
    auto request = to_agent().placeRequest();
    auto list = request.initPlacements(static_cast<unsigned>(actors.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list[i].initSpec().setActor(actors[i]);
      list[i].getSpec().setClassName(name);
      list[i].getSpec().initOptions().setIsolation(light ? wire::Isolation::LIGHT : wire::Isolation::PROCESS);
      list[i].setIncarnation(1);
      list[i].setJob(1);
      list[i].setProcess(process);
      if (!light) list[i].initGpus(1).set(0, 1);
    }
    request.send().wait(loop_.scope());
  }
  void destroy(std::uint64_t actor) {
    auto request = to_agent().destroyRequest();
    auto one = request.initActors(1)[0];
    one.setActor(actor);
    one.setIncarnation(1);
    request.send().wait(loop_.scope());
  }

  std::string folder_;
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  std::unique_ptr<ControlLoop> own_loop_ = std::make_unique<ControlLoop>();
  ControlLoop& loop_ = *own_loop_;
  std::unique_ptr<RpcConnection> head_;
  std::unique_ptr<NodeAgent> agent_;
  bool stopped_ = false;
};

TEST_F(NodeAgentTest, JoinsBeatsAndEnds) {
  EXPECT_EQ(agent_->node(), 9u);
  EXPECT_EQ(agent_->name(), "n9");
  until([&] { return seen_->beats >= 2; });
}

TEST_F(NodeAgentTest, ActorsComeAliveInTheirProcessesAndTheirEndIsTold) {
  start_job("register");
  for (std::uint64_t i = 1; i <= 5; ++i) place(100 + i, {i});
  place(1, {10, 11, 12}, true);
  until([&] { return seen_->alive.size() == 8; });
  EXPECT_EQ(seen_->alive[10], seen_->alive[12]);
  EXPECT_NE(seen_->alive[1], seen_->alive[2]);
  destroy(2);
  until([&] { return seen_->ended.count(102) == 1; });
  EXPECT_EQ(seen_->ended.size(), 1u);
  destroy(2);  // a repetition is no error
  destroy(11);
  place(1, {13}, true);
  until([&] { return seen_->alive.count(13) == 1; });
  until([&] { return seen_->output[1].find("destroyed 11\n") != std::string::npos; });
  EXPECT_EQ(seen_->alive[13], seen_->alive[10]);
  place(101, {1});  // so is a placement
  auto end = to_agent().endJobRequest();
  end.setJob(1);
  end.send().wait(loop_.scope());
  until([&] { return seen_->ended.size() == 6; });
}

// Its first actor may leave before the worker has begun.
TEST_F(NodeAgentTest, ALightWorkerIsStartedOnce) {
  start_job("register");
  place(1, {10}, true);
  destroy(10);
  place(1, {11}, true);
  until([&] { return seen_->alive.count(11) == 1; });
  place(102, {2});  // started after all that was asked for before
  until([&] { return seen_->alive.count(2) == 1; });
  for (int i = 0; i < 50; ++i) loop_.timer().afterDelay(10 * kj::MILLISECONDS).wait(loop_.scope());
  EXPECT_TRUE(seen_->ended.empty()) << seen_->ended.begin()->second.message;
}

TEST_F(NodeAgentTest, AJoinThatFailedIsMadeAgain) {
  stop();
  NodeAgent::Options options(*Token::random());
  options.state = folder_ + "/again";
  options.object_memory = 16 << 20;
  seen_->refusals = 1;
  agent_ = std::make_unique<NodeAgent>(loop_, std::move(options));
  stopped_ = false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    head_ = std::make_unique<RpcConnection>(kj::heap<SocketStream>(loop_, UniqueFd(pair[0])),
                                            kj::heap<FakeHead>(seen_), true);
    auto joined = agent_->join(kj::heap<RpcConnection>(kj::heap<SocketStream>(loop_, UniqueFd(pair[1]))))
                      .then([] { return true; }, [](kj::Exception&&) { return false; });
    EXPECT_EQ(joined.wait(loop_.scope()), attempt == 1);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/again/sockets/objects"));
  int before = seen_->beats;
  until([&] { return seen_->beats > before; });
}

TEST_F(NodeAgentTest, AWorkersEndSaysHow) {
  start_job("exit3");
  place(101, {1});
  until([&] { return seen_->ended.count(101) == 1; });
  const auto& how = seen_->ended[101];
  EXPECT_EQ(how.kind, ErrorKind::actor_died);
  EXPECT_NE(how.message.find("exited with status 3"), std::string::npos) << how.message;
  EXPECT_NE(how.message.find("last trouble"), std::string::npos) << how.message;
  auto logs = to_agent().logsRequest();
  logs.setJob(1);
  logs.setProcess(101);
  logs.setLines(1);
  EXPECT_EQ(std::string(logs.send().wait(loop_.scope()).getText().cStr()), "101 Good: last trouble\n");
}

TEST_F(NodeAgentTest, AFailedConstructorEndsItsProcess) {
  start_job("register");
  place(101, {1}, false, "Bad");
  until([&] { return seen_->failed.count(1) == 1 && seen_->ended.count(101) == 1; });
  EXPECT_EQ(seen_->failed[1].message, "its constructor threw");
}

TEST_F(NodeAgentTest, AnotherBuildIsRefused) {
  start_job("register", own_executable(), test::kFingerprint + 1);
  place(101, {1});
  until([&] { return seen_->ended.count(101) == 1; });
  EXPECT_EQ(seen_->ended[101].kind, ErrorKind::mismatch) << seen_->ended[101].message;
}

TEST_F(NodeAgentTest, AMissingProgramAndOneWithoutRuntimeAreErrors) {
  start_job("register", "/nowhere/at/all");
  place(101, {1});
  until([&] { return seen_->ended.count(101) == 1; });
  EXPECT_NE(seen_->ended[101].message.find("same path on every node"), std::string::npos);
  auto end = to_agent().endJobRequest();
  end.setJob(1);
  end.send().wait(loop_.scope());
  start_job("deaf");
  place(102, {2});
  until([&] { return seen_->ended.count(102) == 1; });
  EXPECT_NE(seen_->ended[102].message.find("exited with status 4 before it made a troupe::Runtime"),
            std::string::npos)
      << seen_->ended[102].message;
  EXPECT_NE(seen_->ended[102].message.find("no runtime here"), std::string::npos);
}

TEST_F(NodeAgentTest, ProgramsWithThreadsAreExecuted) {
  start_job("threads");
  place(101, {1});
  place(102, {2});
  until([&] {
    return seen_->output[101].find("worker 101") != std::string::npos &&
           seen_->output[102].find("worker 102") != std::string::npos;
  });
}

TEST_F(NodeAgentTest, OutputIsLimitedAndTheRestCounted) {
  start_job("spam");
  place(101, {1});
  until([&] { return seen_->lines[101] + seen_->dropped[101] >= 5000; });
  EXPECT_GE(seen_->lines[101], 400u);
  EXPECT_LT(seen_->lines[101], 2000u);
}

TEST_F(NodeAgentTest, WorkersSeeTheirGpusOnly) {
  start_job("devices");
  place(101, {1});
  until([&] { return seen_->output[101].find("devices ") != std::string::npos; });
  EXPECT_EQ(seen_->output[101].substr(0, 10), "devices 1\n");
}

TEST_F(NodeAgentTest, TheSocketOfAnEndedWorkerIsRemoved) {
  start_job("register");
  place(101, {1});
  until([&] { return seen_->alive.size() == 1; });
  std::string socket = folder_ + "/state/sockets/w101";
  std::ofstream(socket).put('x');
  destroy(1);
  until([&] { return seen_->ended.count(101) == 1; });
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST_F(NodeAgentTest, NothingIsLeftWhenTheHeadIsGone) {
  start_job("register");
  place(101, {1});
  place(1, {2, 3}, true);
  until([&] { return seen_->alive.size() == 3; });
  stopped_ = true;
  seen_->agent = nullptr;
  head_ = nullptr;
  auto ended = agent_->ended().then([] { return std::string(); },
                                    [](kj::Exception&& failure) { return error_of(failure).message; });
  EXPECT_EQ(ended.wait(loop_.scope()), "the connection to the head has ended");
  for (auto [actor, pid] : seen_->alive) EXPECT_NE(::kill(pid, 0), 0);
  agent_.reset();
}

}  // namespace
}  // namespace troupe
