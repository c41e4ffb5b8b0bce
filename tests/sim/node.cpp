#include "tests/sim/node.h"

#include "core/control/kj_error.h"
#include "tests/sim/cluster.h"

namespace troupe::sim {
namespace {

constexpr Micros kPatience = 60 * kSecond;
constexpr Micros kRetry = 200 * kMilli;
constexpr Micros kExit = 10 * kMilli;

Token token() { return *Token::parse(std::string(64, 'a')); }

}  // namespace

Node::Agent::Agent(World& world, const std::string& host)
    : number(world.new_pid()),
      process(world.time, [&world, host](const std::string& text) { world.note(host + ": " + text); }) {}

Node::Node(Cluster& cluster, std::string name, Resources resources, std::string folder)
    : cluster_(cluster),
      name_(std::move(name)),
      resources_(std::move(resources)),
      folder_(std::move(folder)) {}

Node::Agent::~Agent() noexcept(false) {
  // What runs on the loop may look at the agent, so it goes first.
  node = nullptr;
}

Node::~Node() noexcept(false) = default;

void Node::start() {
  if (agent_) return;
  World& world = cluster_.world();
  agent_ = std::make_unique<Agent>(world, name_);
  world.note(name_ + " starts an agent");
  NodeAgent::Options options(token());
  options.name = name_;
  options.resources = resources_;
  options.state = folder_;
  options.launcher = "/none";
  options.host_id = "host-" + name_;
  options.pid = static_cast<int>(agent_->number);
  options.patience = 1 * kj::SECONDS;
  options.reconnect = [this, number = agent_->number] { return connection(number); };
  options.starter = cluster_.workers().starters(agent_->process, agent_->number, name_);
  agent_->node = kj::heap<NodeAgent>(static_cast<Executor&>(agent_->process), kj::mv(options));
  world.judge.agent_starts(agent_->number, resources_);
  connect(agent_->number, world.time.now() + kPatience);
}

kj::Promise<kj::Own<RpcConnection>> Node::connection(std::uint64_t number) {
  bool lives = agent_ && agent_->number == number;
  Head* head = lives ? cluster_.reachable_head(name_) : nullptr;
  if (head == nullptr) return kj_exception(Error(ErrorKind::unavailable, "no head can be reached"));
  auto ends = cluster_.world().network.connect({name_, &agent_->process}, {head->host(), &head->process()});
  head->accept(kj::mv(ends.second));
  cluster_.world().connects(number, head->number());
  return kj::heap<RpcConnection>(kj::mv(ends.first), nullptr, false);
}

// As the command does: tries until the head answers, joins, and ends when the agent does.
void Node::connect(std::uint64_t number, Micros deadline) {
  if (!agent_ || agent_->number != number) return;
  World& world = cluster_.world();
  Head* head = agent_->process.frozen() ? nullptr : cluster_.reachable_head(name_);
  if (head == nullptr) {
    if (world.time.now() > deadline) return exits(number, "no head", true);
    world.time.after(kRetry, [this, number, deadline] { connect(number, deadline); });
    return;
  }
  agent_->process.spawn("running the agent",
                        connection(number)
                            .then([this, number](kj::Own<RpcConnection>&& to_head) -> kj::Promise<void> {
                              if (!agent_ || agent_->number != number) return kj::NEVER_DONE;
                              return agent_->node->join(kj::mv(to_head));
                            })
                            .then([this, number]() -> kj::Promise<void> {
                              if (!agent_ || agent_->number != number) return kj::NEVER_DONE;
                              agent_->joined = true;
                              World& w = cluster_.world();
                              w.note(name_ + " joins as node " + std::to_string(agent_->node->node()));
                              w.judge.node_acknowledged({agent_->node->node()});
                              w.reach("node joins");
                              return agent_->node->ended();
                            })
                            .then([this, number] { exits(number, "it was told to", true); },
                                  [this, number](kj::Exception&& failure) {
                                    bool joined = agent_ && agent_->joined;
                                    exits(number, error_of(failure).message, joined);
                                  }));
}

void Node::exits(std::uint64_t number, const std::string& why, bool nothing_left) {
  if (!agent_ || agent_->number != number) return;
  World& world = cluster_.world();
  world.note(name_ + "'s agent ends: " + why);
  world.reach("agent ends");
  if (nothing_left && cluster_.workers().of_agent(number) > 0) {
    world.judge.violation(name_ + "'s agent has ended and left workers");
  }
  world.time.after(kExit, [this, number] {
    if (agent_ && agent_->number == number) kill(false);
  });
}

void Node::kill(bool silent) {
  if (!agent_) return;
  World& world = cluster_.world();
  world.network.dies(&agent_->process, silent);
  world.judge.agent_gone(agent_->number);
  cluster_.workers().agent_died(agent_->number);
  // Its code runs to an end, cut off from the world: a call it serves cannot be taken back from Cap'n Proto.
  agent_->process.thaw();
  agent_->node->stop("it was killed");
  dead_.emplace_back(world.time.now(), std::move(agent_));
}

void Node::rot() {
  Micros now = cluster_.world().time.now();
  std::erase_if(dead_, [now](auto& one) { return one.first + kRot <= now; });
}

bool Node::crash(const void* where) {
  if (!agent_ || where != static_cast<const Executor*>(&agent_->process)) return false;
  cluster_.world().network.dies(&agent_->process, false);
  crashed_ = true;
  return true;
}

void Node::reap() {
  if (std::exchange(crashed_, false)) kill(false);
}

void Node::stop() {
  if (agent_ && agent_->joined) agent_->node->stop("it was told to end");
}

void Node::freeze() {
  if (agent_) agent_->process.freeze();
}

void Node::thaw() {
  if (!frozen()) return;
  agent_->process.thaw();
  cluster_.world().network.thawed();
}

}  // namespace troupe::sim
