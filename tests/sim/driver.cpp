#include "tests/sim/driver.h"

#include "core/control/kj_error.h"
#include "tests/sim/cluster.h"

namespace troupe::sim {
namespace {

constexpr Micros kRetry = 150 * kMilli;

gcs::Phase phase_of(wire::ActorPhase phase) { return static_cast<gcs::Phase>(phase); }

}  // namespace

class Driver::Client final : public wire::JobClient::Server {
 public:
  explicit Client(Driver& driver) : driver_(driver), alive_(driver.alive_) {}
  kj::Promise<void> changed(ChangedContext context) override {
    if (!alive_.expired()) driver_.changed(context.getParams().getStates());
    return kj::READY_NOW;
  }
  kj::Promise<void> output(OutputContext) override { return kj::READY_NOW; }
  kj::Promise<void> nodeLost(NodeLostContext) override { return kj::READY_NOW; }

 private:
  Driver& driver_;
  std::weak_ptr<int> alive_;
};

Driver::Driver(Cluster& cluster, std::string name)
    : cluster_(cluster),
      world_(cluster.world()),
      name_(std::move(name)),
      pid_(world_.new_pid()),
      process_(world_.time, [](const std::string&) {}),
      tasks_(kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this))) {}

Driver::~Driver() noexcept(false) {
  world_.network.dies(&process_, silent_);
  alive_.reset();
  session_ = nullptr;
  tasks_ = nullptr;
  client_ = nullptr;
}

void Driver::taskFailed(kj::Exception&&) {}

void Driver::later(Micros delay, std::function<void()> what) {
  world_.time.after(delay, [alive = std::weak_ptr<int>(alive_), what = std::move(what)] {
    if (!alive.expired()) what();
  });
}

void Driver::start() { connect(); }

void Driver::connect() {
  if (over_ || connecting_ || session_ != nullptr) return;
  Head* head = cluster_.reachable_head(name_);
  if (head == nullptr) return later(kRetry, [this] { connect(); });
  connecting_ = true;
  client_ = nullptr;
  auto ends = world_.network.connect({name_, &process_}, {head->host(), &head->process()});
  head->accept(kj::mv(ends.second));
  stream_ = kj::mv(ends.first);
  client_ = kj::heap<capnp::TwoPartyClient>(*stream_);
  std::uint64_t connection = ++connection_;
  auto request = client_->bootstrap().castAs<wire::Head>().openJobRequest();
  auto info = request.initInfo();
  info.setJob(job_.value);
  info.setName(name_.c_str());
  info.setExecutable("/bin/" + name_);
  info.setFingerprint(1);
  info.setHostId("host-" + name_);
  info.setPid(static_cast<std::int32_t>(pid_));
  request.setClient(kj::heap<Client>(*this));
  tasks_->add(client_->onDisconnect().then(
      [this, connection] { later(0, [this, connection] { lost(connection); }); }));
  tasks_->add(request.send().then(
      [this](capnp::Response<wire::Head::OpenJobResults>&& answer) {
        connecting_ = false;
        world_.reach(job_ ? "driver comes back" : "job opened");
        job_ = {answer.getJob()};
        process_number_ = answer.getProcess();
        session_ = answer.getSession();
        world_.note(name_ + " has job " + to_string(job_));
        world_.judge.job_acknowledged(job_);
      },
      [this, connection](kj::Exception&& failure) {
        connecting_ = false;
        Error why = error_of(failure);
        world_.note(name_ + " cannot open its job: " + why.message);
        if (why.kind == ErrorKind::not_found) over_ = true;
        later(kRetry, [this, connection] { lost(connection); });
      }));
}

void Driver::lost(std::uint64_t connection) {
  if (connection != connection_) return;
  session_ = nullptr;
  connecting_ = false;
  ++connection_;
  connect();
}

void Driver::changed(capnp::List<wire::ActorState>::Reader states) {
  for (auto state : states) {
    ActorId actor{state.getActor()};
    world_.note(name_ + " hears " + to_string(actor) + "/" + std::to_string(state.getIncarnation()) + " " +
                to_string(phase_of(state.getPhase())) + (state.getInfeasible() ? " (infeasible)" : ""));
    world_.reach(std::string("news: ") +
                 (state.getInfeasible() ? "infeasible" : to_string(phase_of(state.getPhase()))));
    world_.judge.told(name_, actor, phase_of(state.getPhase()), state.getIncarnation());
  }
}

template <class T, class F>
void Driver::ask(kj::Promise<T> promise, F&& then) {
  ++asking_;
  tasks_->add(promise.then(
      [this, then = std::forward<F>(then)](T&& answer) mutable {
        --asking_;
        then(kj::mv(answer));
      },
      [this](kj::Exception&& failure) {
        --asking_;
        world_.reach(std::string("request fails: ") + to_string(error_of(failure).kind));
      }));
}

bool Driver::spawn(const std::vector<Wish>& wishes) {
  KJ_IF_MAYBE (session, session_) {
    auto request = session->spawnRequest();
    auto list = request.initActors(static_cast<unsigned>(wishes.size()));
    std::vector<ActorId> ids;
    for (unsigned i = 0; i < list.size(); ++i) {
      ActorId id = actor_of({process_number_}, ++spawned_);
      wishes[i].write(list[i], id, {});
      ids.push_back(id);
      actors_.push_back(id);
      world_.note(name_ + " spawns " + to_string(id) +
                  (wishes[i].name.empty() ? "" : " as " + wishes[i].name));
    }
    ask(kj::Promise<capnp::Response<wire::Session::SpawnResults>>(request.send()),
        [this, ids, wishes](capnp::Response<wire::Session::SpawnResults>&& answer) {
          auto spawned = answer.getSpawned();
          for (unsigned i = 0; i < spawned.size(); ++i) {
            ActorId got{spawned[i].getActor()};
            if (spawned[i].hasFailure()) {
              world_.note(name_ + " may not spawn " + to_string(ids[i]));
              world_.reach("spawn refused");
              continue;
            }
            world_.reach(got == ids[i] ? "spawned" : "found by get-or-create");
            world_.judge.spawn_acknowledged(got);
            if (got == ids[i]) acknowledged_.insert(got);
            if (!wishes[i].name.empty()) names_.emplace_back(wishes[i].name, got);
          }
        });
    return true;
  }
  return false;
}

bool Driver::resolve() {
  if (actors_.empty()) return false;
  KJ_IF_MAYBE (session, session_) {
    ActorId actor = actors_[world_.random.below(actors_.size())];
    auto request = session->resolveRequest();
    request.setActor(actor.value);
    request.setAfter(static_cast<std::uint32_t>(world_.random.below(3)));
    ask(kj::Promise<capnp::Response<wire::Session::ResolveResults>>(request.send()),
        [this, actor](capnp::Response<wire::Session::ResolveResults>&& answer) {
          auto state = answer.getState();
          world_.reach("resolved");
          if (acknowledged_.count(actor) > 0)
            world_.judge.told(name_ + "'s questions", actor, phase_of(state.getPhase()),
                              state.getIncarnation());
        });
    return true;
  }
  return false;
}

bool Driver::find(const std::string& name) {
  KJ_IF_MAYBE (session, session_) {
    auto request = session->findRequest();
    request.setName(name.c_str());
    ask(kj::Promise<capnp::Response<wire::Session::FindResults>>(request.send()),
        [this](capnp::Response<wire::Session::FindResults>&& answer) {
          auto state = answer.getState();
          world_.reach("found");
          world_.judge.told(name_ + "'s questions", {state.getActor()}, phase_of(state.getPhase()),
                            state.getIncarnation());
        });
    return true;
  }
  return false;
}

bool Driver::kill_one(bool no_restart) {
  return !actors_.empty() && kill(actors_[world_.random.below(actors_.size())], no_restart);
}

bool Driver::kill(ActorId actor, bool no_restart) {
  KJ_IF_MAYBE (session, session_) {
    auto request = session->killRequest();
    request.setActor(actor.value);
    request.setNoRestart(no_restart);
    world_.note(name_ + " kills " + to_string(actor));
    ask(kj::Promise<capnp::Response<wire::Session::KillResults>>(request.send()),
        [this, actor, no_restart](capnp::Response<wire::Session::KillResults>&&) {
          world_.reach("killed");
          if (no_restart) world_.judge.kill_acknowledged(actor);
        });
    return true;
  }
  return false;
}

bool Driver::list_nodes() {
  KJ_IF_MAYBE (session, session_) {
    ask(kj::Promise<capnp::Response<wire::Session::NodesResults>>(session->nodesRequest().send()),
        [this](capnp::Response<wire::Session::NodesResults>&&) { world_.reach("nodes listed"); });
    return true;
  }
  return false;
}

ActorId Driver::named(const std::string& name) const {
  for (auto at = names_.rbegin(); at != names_.rend(); ++at) {
    if (at->first == name) return at->second;
  }
  return {};
}

}  // namespace troupe::sim
