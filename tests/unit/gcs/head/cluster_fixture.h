// A head, agents and drivers in one process: real RPC over in-memory pipes, a clock that the test moves.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/timer.h>

#include <optional>

#include "core/control/kj_error.h"
#include "core/protocol/cluster.capnp.h"
#include "gcs/head/head_server.h"
#include "gcs/store/memory_store.h"

namespace troupe::gcs {

struct Placed {
  ActorId actor;
  std::uint32_t incarnation;
  ProcessId process;
  JobId job;
};

struct AgentLog {
  std::vector<std::string> calls;
  std::vector<Placed> placed;
  std::vector<ActorId> destroyed;
  int place_calls = 0;
  bool refuse_destroy = false;
};

class FakeAgent final : public wire::Agent::Server {
 public:
  explicit FakeAgent(AgentLog& log) : log_(log) {}
  kj::Promise<void> startJob(StartJobContext context) override {
    log_.calls.push_back("startJob " + std::to_string(context.getParams().getInfo().getJob()));
    return kj::READY_NOW;
  }
  kj::Promise<void> place(PlaceContext context) override {
    ++log_.place_calls;
    for (auto one : context.getParams().getPlacements()) {
      log_.placed.push_back(
          {{one.getSpec().getActor()}, one.getIncarnation(), {one.getProcess()}, {one.getJob()}});
      log_.calls.push_back("place " + to_string(ActorId{one.getSpec().getActor()}));
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    if (log_.refuse_destroy) kj::throwFatalException(kj_exception(Error(ErrorKind::internal, "cannot")));
    for (auto one : context.getParams().getActors()) {
      log_.destroyed.push_back({one.getActor()});
      log_.calls.push_back("destroy " + to_string(ActorId{one.getActor()}));
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> endJob(EndJobContext context) override {
    log_.calls.push_back("endJob " + std::to_string(context.getParams().getJob()));
    return kj::READY_NOW;
  }
  kj::Promise<void> shutdown(ShutdownContext) override {
    log_.calls.push_back("shutdown");
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setText("log of process " + std::to_string(context.getParams().getProcess()) + "\n");
    return kj::READY_NOW;
  }

 private:
  AgentLog& log_;
};

struct ClientLog {
  std::vector<std::pair<ActorId, wire::ActorPhase>> states;
  std::vector<std::string> lines;
  std::vector<NodeId> gone;
  int changed_calls = 0;
};

class FakeClient final : public wire::JobClient::Server {
 public:
  explicit FakeClient(ClientLog& log) : log_(log) {}
  kj::Promise<void> changed(ChangedContext context) override {
    ++log_.changed_calls;
    for (auto state : context.getParams().getStates()) {
      log_.states.emplace_back(ActorId{state.getActor()}, state.getPhase());
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> output(OutputContext context) override {
    for (auto line : context.getParams().getLines()) log_.lines.emplace_back(line.cStr());
    return kj::READY_NOW;
  }
  kj::Promise<void> nodeLost(NodeLostContext context) override {
    log_.gone.push_back({context.getParams().getNode()});
    return kj::READY_NOW;
  }

 private:
  ClientLog& log_;
};

class ClusterTest : public ::testing::Test {
 protected:
  // One connection to the head.
  struct Peer {
    explicit Peer(wire::Head::Client bootstrap) : pipe(kj::newTwoWayPipe()), server(kj::mv(bootstrap)) {
      server.accept(kj::mv(pipe.ends[0]));
      client = kj::heap<capnp::TwoPartyClient>(*pipe.ends[1]);
    }
    wire::Head::Client head() { return client->bootstrap().castAs<wire::Head>(); }
    kj::TwoWayPipe pipe;
    capnp::TwoPartyServer server;
    kj::Own<capnp::TwoPartyClient> client;
  };
  struct Node {
    explicit Node(wire::Head::Client bootstrap) : peer(kj::mv(bootstrap)) {}
    Peer peer;
    AgentLog log;
    NodeId id;
    std::string name;
    kj::Maybe<wire::Membership::Client> membership;
    wire::Membership::Client hold() { return KJ_ASSERT_NONNULL(membership); }
  };
  struct Driver {
    explicit Driver(wire::Head::Client bootstrap) : peer(kj::mv(bootstrap)) {}
    Peer peer;
    ClientLog log;
    JobId job;
    ProcessId process;
    kj::Maybe<wire::Session::Client> session;
    wire::Session::Client hold() { return KJ_ASSERT_NONNULL(session); }
  };

  ClusterTest() : scope_(loop_), timer_(kj::origin<kj::TimePoint>()) {}
  ~ClusterTest() noexcept override { head_ = nullptr; }

  void start() {
    HeadServer::Options options;
    options.now = [this] {
      return 1'000'000 + (timer_.now() - kj::origin<kj::TimePoint>()) / kj::MILLISECONDS;
    };
    options.version = "test";
    head_ = kj::heap<HeadServer>(timer_, store_, kj::mv(options));
    head_->start().wait(scope_);
  }
  void settle() { scope_.poll(); }
  void advance(kj::Duration by) {
    timer_.advanceTo(timer_.now() + by);
    settle();
  }

  kj::Promise<void> join(Node& node, const std::string& name, double cpu, int pid = 1) {
    auto request = node.peer.head().joinRequest();
    auto info = request.initInfo();
    info.setName(name.c_str());
    info.setHostId("host-" + name);
    info.setPid(pid);
    auto amounts = info.initResources(1);
    amounts[0].setName("cpu");
    amounts[0].setUnits(static_cast<std::int64_t>(cpu * 10'000));
    request.setAgent(kj::heap<FakeAgent>(node.log));
    return request.send().then([&node](auto&& response) {
      node.id = {response.getNode()};
      node.name = response.getName().cStr();
      node.membership = response.getMembership();
    });
  }
  kj::Own<Node> joined(const std::string& name, double cpu, int pid = 1) {
    auto node = kj::heap<Node>(head_->bootstrap());
    join(*node, name, cpu, pid).wait(scope_);
    return node;
  }

  kj::Promise<void> open(Driver& driver, JobId job = {}) {
    auto request = driver.peer.head().openJobRequest();
    request.initInfo().setName("job");
    request.getInfo().setJob(job.value);
    request.getInfo().setPid(77);
    request.setClient(kj::heap<FakeClient>(driver.log));
    return request.send().then([&driver](auto&& response) {
      driver.job = {response.getJob()};
      driver.process = {response.getProcess()};
      driver.session = response.getSession();
    });
  }
  kj::Own<Driver> opened() {
    auto driver = kj::heap<Driver>(head_->bootstrap());
    open(*driver).wait(scope_);
    return driver;
  }

  struct Wish {
    std::uint64_t n;
    double cpu = 0;
    bool light = true;
    std::string name = "";
    int restarts = 0;
  };
  kj::Promise<std::string> spawn(Driver& driver, std::vector<Wish> wishes) {
    auto request = driver.hold().spawnRequest();
    auto list = request.initActors(static_cast<unsigned>(wishes.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list[i].setActor(actor_of(driver.process, wishes[i].n).value);
      list[i].setClassName("Counter");
      auto options = list[i].initOptions();
      options.setIsolation(wishes[i].light ? wire::Isolation::LIGHT : wire::Isolation::PROCESS);
      options.setName(wishes[i].name.c_str());
      options.setMaxRestarts(wishes[i].restarts);
      if (wishes[i].cpu == 0) continue;
      auto amounts = options.initResources(1);
      amounts[0].setName("cpu");
      amounts[0].setUnits(static_cast<std::int64_t>(wishes[i].cpu * 10'000));
    }
    return request.send().then([](auto&& response) {
      std::string failures;
      for (auto one : response.getSpawned()) {
        if (one.hasFailure()) failures += std::string(one.getFailure().getMessage().cStr()) + "\n";
      }
      return failures;
    });
  }
  kj::Promise<void> report_alive(Node& node, std::vector<Placed> placed) {
    auto request = node.hold().reportRequest();
    auto events = request.initEvents(static_cast<unsigned>(placed.size()));
    for (unsigned i = 0; i < events.size(); ++i) {
      auto alive = events[i].initActorAlive();
      alive.getOf().setActor(placed[i].actor.value);
      alive.getOf().setIncarnation(placed[i].incarnation);
      alive.initEndpoint().setProcess(placed[i].process.value);
      alive.getEndpoint().setUnixPath("/sock");
    }
    return request.send().ignoreResult();
  }
  auto resolve(Driver& driver, ActorId actor, std::uint32_t after = 0) {
    auto request = driver.hold().resolveRequest();
    request.setActor(actor.value);
    request.setAfter(after);
    return request.send();
  }
  wire::Admin::Client admin(Peer& peer) { return peer.head().adminRequest().send().getAdmin(); }
  wire::ActorPhase phase(Driver& driver, std::uint64_t n) {
    return static_cast<wire::ActorPhase>(head_->core().actor(actor_of(driver.process, n))->phase);
  }

  kj::EventLoop loop_;
  kj::WaitScope scope_;
  kj::TimerImpl timer_;
  MemoryStore store_;
  kj::Own<HeadServer> head_;
};

template <class F>
std::optional<Error> error_from(F&& work) {
  std::optional<Error> found;
  auto caught = kj::runCatchingExceptions([&] { work(); });
  KJ_IF_MAYBE (exception, caught) {
    found = error_of(*exception);
  }
  return found;
}

}  // namespace troupe::gcs
