#include "tests/sim/news.h"

#include <capnp/serialize-packed.h>
#include <kj/io.h>

#include "core/protocol/store.capnp.h"
#include "runtime/process/wire_types.h"

namespace troupe::sim {
namespace {

bool lost_on_disk(World& world, NodeId node) {
  const auto& table = world.disk.table(gcs::StoreTable::nodes);
  auto at = table.find(std::to_string(node.value));
  if (at == table.end()) return true;
  const std::string& bytes = at->second;
  kj::ArrayInputStream in(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
  capnp::PackedMessageReader message(in);
  return !message.getRoot<wire::NodeRecord>().getAlive();
}

// The process knows. Its lanes know a moment later, when they have dealt with what was posted to them before.
template <class What>
void once_lanes_know(Program& program, What what) {
  auto& lanes = program.participant().lanes();
  for (int i = 0; i < static_cast<int>(lanes.size()); ++i) {
    lanes[static_cast<std::size_t>(i)]->post_function([&calls = program.world().calls,
                                                       who = CallJudge::Listener{program.number(), i},
                                                       what] { what(calls, who); });
  }
}

// The number of the head whose news the program hears; of two, while the one before may yet be heard, that.
std::uint64_t told_by(Program& program) {
  constexpr Micros kLate = 2 * kSecond;
  std::uint64_t agent = program.options().agent;
  World& world = program.world();
  const World::Connected& one = world.connected[agent != 0 ? agent : program.number()];
  return one.before != 0 && world.time.now() - one.since < kLate ? one.before : one.head;
}

// A head tells of a lost node at once. When it ends before that is on the disk, the node comes back, and what
// runs there was never fenced; that it may be lost again later, this process has not been told.
void fence_once_durable(Program& program, NodeId node, std::uint64_t told_by, int looks) {
  constexpr int kMostLooks = 500;
  World& world = program.world();
  if (world.heads_started != told_by || looks == kMostLooks) return;
  if (lost_on_disk(world, node)) {
    once_lanes_know(program, [node](CallJudge& calls, CallJudge::Listener who) { calls.fenced(who, node); });
  } else {
    world.time.after(10 * kMilli, [&program, alive = program.alive(), node, told_by, looks] {
      if (!alive.expired()) fence_once_durable(program, node, told_by, looks + 1);
    });
  }
}

class News final : public wire::JobClient::Server {
 public:
  News(Program& program, bool owns, wire::JobClient::Client to)
      : program_(program), alive_(program.alive()), owns_(owns), to_(kj::mv(to)) {}

  kj::Promise<void> changed(ChangedContext context) override {
    if (alive_.expired()) return kj::READY_NOW;
    auto states = context.getParams().getStates();
    std::vector<std::pair<ActorId, std::uint32_t>> over;
    for (auto state : states) {
      if (hear(state)) over.emplace_back(ActorId{state.getActor()}, state.getIncarnation());
    }
    auto request = to_.changedRequest();
    request.setStates(states);
    return request.send().ignoreResult().then([&program = program_, alive = alive_, over = std::move(over)] {
      if (alive.expired()) return;
      for (auto [actor, incarnation] : over) {
        once_lanes_know(
            program, [actor = actor, incarnation = incarnation](CallJudge& calls, CallJudge::Listener who) {
              calls.fenced(who, actor, incarnation);
            });
      }
    });
  }
  kj::Promise<void> output(OutputContext) override { return kj::READY_NOW; }
  kj::Promise<void> nodeLost(NodeLostContext context) override {
    if (alive_.expired()) return kj::READY_NOW;
    World& world = program_.world();
    NodeId node{context.getParams().getNode()};
    world.note_parts(program_.options().name, " hears node ", to_string(node), " lost");
    world.reach("news: node lost");
    auto request = to_.nodeLostRequest();
    request.setNode(node.value);
    return request.send().ignoreResult().then([&program = program_, alive = alive_, node] {
      if (!alive.expired()) fence_once_durable(program, node, told_by(program), 0);
    });
  }

 private:
  // True when that incarnation has ended.
  bool hear(wire::ActorState::Reader state) {
    World& world = program_.world();
    ActorId actor{state.getActor()};
    auto phase = static_cast<gcs::Phase>(state.getPhase());
    world.note_parts(program_.options().name, " hears ", to_string(actor), "/", state.getIncarnation(), " ",
                     to_string(phase), state.getInfeasible() ? " (infeasible)" : "");
    world.reach(std::string("news: ") + (state.getInfeasible() ? "infeasible" : to_string(phase)));
    world.judge.told(program_.options().name, actor, phase, state.getIncarnation());
    bool over = phase == gcs::Phase::dead || phase == gcs::Phase::restarting;
    if (!owns_ || phase != gcs::Phase::dead) return over;
    auto news = read_news(state);
    if (!news.failure || news.failure->kind != ErrorKind::cancelled)
      world.calls.failure_told(program_.number(), actor, world.time.now());
    return over;
  }

  Program& program_;
  std::weak_ptr<int> alive_;
  bool owns_;
  wire::JobClient::Client to_;
};

class Agent final : public wire::WorkerHost::Server {
 public:
  Agent(Program& program, wire::WorkerHost::Client to) : program_(program), to_(kj::mv(to)) {}
  kj::Promise<void> register_(RegisterContext context) override {
    auto params = context.getParams();
    auto request = to_.registerRequest();
    request.setWorker(params.getWorker());
    request.setClient(overheard(program_, false, params.getClient()));
    request.setEndpoint(params.getEndpoint());
    request.setFingerprint(params.getFingerprint());
    return request.send().ignoreResult();
  }
  kj::Promise<void> report(ReportContext context) override {
    auto request = to_.reportRequest();
    request.setEvents(context.getParams().getEvents());
    return request.send().ignoreResult();
  }

 private:
  Program& program_;
  wire::WorkerHost::Client to_;
};

}  // namespace

wire::JobClient::Client overheard(Program& program, bool owns, wire::JobClient::Client to) {
  return kj::heap<News>(program, owns, kj::mv(to));
}

wire::WorkerHost::Client overheard(Program& program, wire::WorkerHost::Client agent) {
  return kj::heap<Agent>(program, kj::mv(agent));
}

}  // namespace troupe::sim
