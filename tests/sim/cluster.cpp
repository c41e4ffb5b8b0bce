#include "tests/sim/cluster.h"

namespace troupe::sim {

// One request of `troupe kill`, over a connection of its own.
struct Cluster::Admin final : kj::TaskSet::ErrorHandler {
  explicit Admin(World& world) : process(world.time, [](const std::string&) {}), tasks(*this) {}
  void taskFailed(kj::Exception&&) override {}
  SimProcess process;
  kj::Own<kj::AsyncIoStream> stream;
  kj::Own<capnp::TwoPartyClient> client;
  bool done = false;
  kj::TaskSet tasks;
};

Cluster::Cluster(World& world, std::string folder)
    : world_(world), folder_(std::move(folder)), workers_(world) {
  register_sim_classes();
}

Cluster::~Cluster() noexcept(false) {
  drivers_.clear();
  admins_.clear();
  heads_.clear();
  for (auto& [name, node] : nodes_) node->kill(false);
  Micros limit = world_.time.now() + Node::kRot;
  while (world_.time.step(limit)) {
  }
  nodes_.clear();
  workers_.clear();
  world_.time.forget();
}

// ---- heads ----

void Cluster::start_head() {
  world_.note("a head starts");
  if (head() != nullptr) world_.reach("second head");
  heads_.push_back(std::make_unique<Head>(world_, "head"));
}

void Cluster::kill_head(bool silent) {
  for (auto& one : heads_) {
    if (silent) one->dies_silently();
  }
  world_.note("the head dies");
  heads_.clear();
}

Head* Cluster::head() {
  for (auto at = heads_.rbegin(); at != heads_.rend(); ++at) {
    if ((*at)->state() == Head::State::serving) return at->get();
  }
  return nullptr;
}

Head* Cluster::reachable_head(const std::string& from) {
  Head* found = head();
  if (found == nullptr || found->process().frozen()) return nullptr;
  return world_.network.partitioned(from, found->host()) ? nullptr : found;
}

void Cluster::thaw_heads() {
  for (auto& one : heads_) one->process().thaw();
  world_.network.thawed();
}

void Cluster::end_old_heads() {
  if (heads_.size() > 1) heads_.erase(heads_.begin(), heads_.end() - 1);
}

void Cluster::reap_heads() {
  std::erase_if(heads_, [](const auto& one) { return one->state() == Head::State::over; });
}

// ---- nodes and drivers ----

Node& Cluster::add_node(const std::string& name, const Resources& resources) {
  auto& node = nodes_[name];
  if (!node) node = std::make_unique<Node>(*this, name, resources, folder_ + "/" + name);
  return *node;
}

Node* Cluster::node(const std::string& name) {
  auto at = nodes_.find(name);
  return at == nodes_.end() ? nullptr : at->second.get();
}

Driver& Cluster::add_driver(const std::string& name, const std::string& host, bool handles) {
  auto& driver = drivers_[name];
  if (!driver) {
    driver = std::make_unique<Driver>(*this, name, host.empty() ? name : host, handles);
    driver->start();
  }
  return *driver;
}

Driver* Cluster::driver(const std::string& name) {
  auto at = drivers_.find(name);
  return at == drivers_.end() ? nullptr : at->second.get();
}

void Cluster::end_driver(const std::string& name, bool silent) {
  auto at = drivers_.find(name);
  if (at == drivers_.end()) return;
  world_.note(name + " ends");
  if (silent) at->second->dies_silently();
  drivers_.erase(at);
}

void Cluster::admin_kill(const std::string& target) {
  Head* to = reachable_head("admin");
  if (to == nullptr) return;
  auto admin = std::make_unique<Admin>(world_);
  auto ends = world_.network.connect({"admin", &admin->process}, {to->host(), &to->process()});
  to->accept(kj::mv(ends.second));
  admin->stream = kj::mv(ends.first);
  admin->client = kj::heap<capnp::TwoPartyClient>(*admin->stream);
  auto request =
      admin->client->bootstrap().castAs<wire::Head>().adminRequest().send().getAdmin().killRequest();
  request.setTarget(target.c_str());
  request.setNoRestart(true);
  world_.note("admin kills " + target);
  ++admin_asking_;
  auto ended = [this, raw = admin.get()] {
    --admin_asking_;
    raw->done = true;
  };
  admin->tasks.add(request.send().then([ended](auto&&) { ended(); }, [ended](kj::Exception&&) { ended(); }));
  admins_.push_back(std::move(admin));
}

void Cluster::crash(const FaultPoint& point, const void* where) {
  world_.note(std::string("crash at ") + point.name());
  for (auto& one : heads_) {
    if (where == &one->process().timer()) return one->crash();
  }
  for (auto& [name, node] : nodes_) {
    if (node->crash(where)) return;
  }
}

// ---- steps ----

bool Cluster::step(Micros limit) {
  bool more = world_.time.step(limit);
  reap_heads();
  for (auto& [name, node] : nodes_) {
    node->reap();
    node->rot();
  }
  std::erase_if(admins_, [](const auto& one) { return one->done; });
  // Those whose failures nobody dealt with.
  std::erase_if(drivers_, [this](const auto& one) {
    if (one.second->over()) world_.note(one.first + " ends for a failure");
    return one.second->over();
  });
  ++steps_;
  for (auto& one : heads_) {
    if (one->state() != Head::State::serving) continue;
    bool changed = one->checked_events != one->core().events();
    if (changed) world_.judge.check_tables(one->core());
    // An old one may not know yet that its word no longer counts.
    if ((changed || one->checked_facts != world_.judge.facts()) && one->owns_store())
      world_.judge.check(one->core());
    one->checked_events = one->core().events();
    one->checked_facts = world_.judge.facts();
  }
  return more;
}

}  // namespace troupe::sim
