#include "tests/sim/worker.h"

#include <signal.h>

#include "core/control/kj_error.h"
#include "tests/sim/wishes.h"

namespace troupe::sim {
namespace {

class Deaf final : public wire::JobClient::Server {
 public:
  kj::Promise<void> changed(ChangedContext) override { return kj::READY_NOW; }
  kj::Promise<void> output(OutputContext) override { return kj::READY_NOW; }
  kj::Promise<void> nodeLost(NodeLostContext) override { return kj::READY_NOW; }
};

}  // namespace

class Worker::Server final : public wire::Worker::Server {
 public:
  explicit Server(Worker& worker) : worker_(worker), alive_(worker.alive_) {}
  kj::Promise<void> place(PlaceContext context) override {
    if (alive_.expired()) return kj::READY_NOW;
    for (auto one : context.getParams().getPlacements()) worker_.place(one);
    return kj::READY_NOW;
  }
  kj::Promise<void> newSession(NewSessionContext context) override {
    if (!alive_.expired()) worker_.session_ = context.getParams().getSession();
    return kj::READY_NOW;
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    if (alive_.expired()) return kj::READY_NOW;
    for (auto one : context.getParams().getActors()) worker_.destroy(one.getActor(), one.getIncarnation());
    return kj::READY_NOW;
  }

 private:
  Worker& worker_;
  std::weak_ptr<int> alive_;
};

Worker::Worker(World& world, std::uint64_t pid, std::uint64_t agent, WorkerStart start, std::string host,
               kj::Own<kj::AsyncIoStream> channel, OnDeath on_death)
    : world_(world),
      pid_(pid),
      agent_(agent),
      start_(std::move(start)),
      host_(std::move(host)),
      on_death_(std::move(on_death)),
      stream_(kj::mv(channel)),
      tasks_(kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this))) {}

Worker::~Worker() noexcept(false) {
  for (auto& [id, actor] : actors_) world_.judge.hosting_over(actor.key);
  alive_.reset();
  session_ = nullptr;
  to_agent_ = nullptr;
  tasks_ = nullptr;
  channel_ = nullptr;
}

void Worker::later(Micros delay, std::function<void()> what) {
  world_.time.after(delay, [this, alive = std::weak_ptr<int>(alive_), what = std::move(what)] {
    if (!alive.expired() && !dead_) what();
  });
}

void Worker::taskFailed(kj::Exception&&) {}

void Worker::begin(std::uint64_t fingerprint) {
  KJ_IF_MAYBE (stream, stream_) {
    auto connection = kj::heap<RpcConnection>(kj::mv(*stream), nullptr, false);
    stream_ = nullptr;
    tasks_->add(connection->on_disconnect().then([this] { later(0, [this] { die(9); }); }));
    auto host = connection->bootstrap().castAs<wire::WorkerHost>();
    auto request = host.registerRequest();
    request.setWorker(kj::heap<Server>(*this));
    request.setClient(kj::heap<Deaf>());
    auto endpoint = request.initEndpoint();
    endpoint.setProcess(start_.process);
    endpoint.setNode(start_.node);
    endpoint.setHostId(host_.c_str());
    endpoint.setUnixPath("/w");
    request.setFingerprint(fingerprint);
    auto answer = request.send();
    tasks_->add(
        answer.then([this](capnp::Response<wire::WorkerHost::RegisterResults>&&) { registered_ = true; },
                    [this](kj::Exception&&) {
                      later(0, [this] { die(1 << 8); });  // it gives up, with status 1
                    }));
    to_agent_ = kj::mv(host);
    channel_ = kj::mv(connection);
  }
}

void Worker::die(int wait_status) {
  if (dead_) return;
  dead_ = true;
  world_.note("worker " + std::to_string(start_.process) + " on " + host_ + " ends with " +
              std::to_string(wait_status));
  for (auto& [id, actor] : actors_) world_.judge.hosting_over(actor.key);
  actors_.clear();
  session_ = nullptr;
  to_agent_ = nullptr;
  tasks_ = nullptr;
  channel_ = nullptr;
  stream_ = nullptr;
  tasks_ = kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this));
  if (on_death_) on_death_(wait_status);
}

void Worker::place(wire::Placement::Reader placement) {
  auto spec = placement.getSpec();
  std::uint64_t id = spec.getActor();
  if (actors_.count(id) > 0) return;  // a repeated request
  Hosted hosted;
  hosted.actor = {id};
  hosted.incarnation = placement.getIncarnation();
  hosted.node = {start_.node};
  hosted.agent = agent_;
  for (auto amount : spec.getOptions().getResources()) {
    hosted.resources.set_units(amount.getName().cStr(), amount.getUnits());
  }
  for (auto gpu : placement.getGpus()) hosted.gpus.push_back(gpu);
  std::uint64_t key = world_.new_pid();
  actors_[id] = {hosted.incarnation, key, false};
  world_.note("actor " + to_string(hosted.actor) + "/" + std::to_string(hosted.incarnation) + " begins on " +
              host_);
  world_.judge.hosting(key, hosted);
  later(world_.random.between(0, 5 * kMilli),
        [this, id, incarnation = hosted.incarnation] { constructed(id, incarnation); });
}

void Worker::constructed(std::uint64_t id, std::uint32_t incarnation) {
  auto at = actors_.find(id);
  if (at == actors_.end() || at->second.incarnation != incarnation) return;
  if (world_.random.chance(world_.chances.constructor_fails)) {
    world_.reach("constructor fails");
    report_failed(id, incarnation);
    world_.judge.hosting_over(at->second.key);
    actors_.erase(at);
    return;
  }
  at->second.alive = true;
  world_.judge.reported_alive(at->second.key);
  report_alive(id, incarnation);
  if (world_.random.chance(world_.chances.repeated_report)) {
    world_.reach("report repeated");
    later(world_.random.between(0, 20 * kMilli), [this, id, incarnation] {
      if (actors_.count(id) > 0) report_alive(id, incarnation);
    });
  }
}

void Worker::report_alive(std::uint64_t id, std::uint32_t incarnation) {
  KJ_IF_MAYBE (agent, to_agent_) {
    auto call = agent->reportRequest();
    auto alive = call.initEvents(1)[0].initActorAlive();
    alive.initOf().setActor(id);
    alive.getOf().setIncarnation(incarnation);
    auto endpoint = alive.initEndpoint();
    endpoint.setProcess(start_.process);
    endpoint.setNode(start_.node);
    endpoint.setUnixPath("/w");
    tasks_->add(call.send().ignoreResult());
  }
}

void Worker::report_failed(std::uint64_t id, std::uint32_t incarnation) {
  KJ_IF_MAYBE (agent, to_agent_) {
    auto call = agent->reportRequest();
    auto failed = call.initEvents(1)[0].initActorFailed();
    failed.initOf().setActor(id);
    failed.getOf().setIncarnation(incarnation);
    write_failure(failed.initFailure(), Error(ErrorKind::actor_error, "its constructor threw"));
    tasks_->add(call.send().ignoreResult());
  }
}

void Worker::destroy(std::uint64_t id, std::uint32_t incarnation) {
  auto at = actors_.find(id);
  if (at == actors_.end() || at->second.incarnation != incarnation) return;
  world_.note("actor " + to_string(ActorId{id}) + "/" + std::to_string(incarnation) + " is destroyed on " +
              host_);
  world_.judge.hosting_over(at->second.key);
  actors_.erase(at);
}

bool Worker::fail_one_actor() {
  for (auto& [id, actor] : actors_) {
    if (!actor.alive || start_.isolation == 0) continue;
    report_failed(id, actor.incarnation);
    world_.judge.hosting_over(actor.key);
    actors_.erase(id);
    return true;
  }
  return false;
}

bool Worker::spawn_child() {
  if (!registered_ || dead_) return false;
  for (auto& [id, actor] : actors_) {
    if (!actor.alive) continue;
    KJ_IF_MAYBE (session, session_) {
      auto call = session->spawnRequest();
      Wish wish = Wish::draw(world_.random);
      ActorId child = actor_of({start_.process}, ++spawned_);
      wish.write(call.initActors(1)[0], child, {id});
      world_.note("worker " + std::to_string(start_.process) + " spawns " + to_string(child));
      tasks_->add(call.send().then([this, child, named = wish.get_or_create](auto&& answer) {
        auto one = answer.getSpawned()[0];
        if (one.hasFailure() || named) return;
        world_.reach("child spawned");
        world_.judge.spawn_acknowledged(child);
      }));
      return true;
    }
  }
  return false;
}

}  // namespace troupe::sim
