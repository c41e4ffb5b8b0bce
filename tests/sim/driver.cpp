#include "tests/sim/driver.h"

#include "core/control/kj_error.h"
#include "tests/sim/cluster.h"
#include "tests/sim/news.h"

namespace troupe::sim {
namespace {

gcs::Phase phase_of(wire::ActorPhase phase) { return static_cast<gcs::Phase>(phase); }

Program::Options options_of(const std::string& name, const std::string& host) {
  Program::Options options;
  options.name = name;
  options.host = host;
  options.host_id = "host-" + host;
  options.drivable = true;
  return options;
}

}  // namespace

Driver::Driver(Cluster& cluster, std::string name, std::string host, bool handles)
    : cluster_(cluster),
      world_(cluster.world()),
      pid_(world_.new_pid()),
      program_(world_, options_of(name, host),
               [this](const Error&) {
                 over_ = true;
                 world_.calls.failure_ends(program_.number());
               }),
      reach_(program_.process(), program_.participant().plane(),
             {[this] { return find_head(); },
              [this](wire::JobInfo::Builder info) {
                const LinkIdentity& self = program_.participant().identity();
                info.setJob(self.job.value);
                info.setName(program_.options().name.c_str());
                info.setExecutable(("/bin/" + program_.options().name).c_str());
                info.setFingerprint(self.fingerprint);
                info.setHostId(self.host_id.c_str());
                info.setPid(static_cast<std::int32_t>(pid_));
                world_.reach(self.job ? "driver comes back" : "driver enters");
              },
              [this] { return overheard(program_, true, program_.participant().plane().client()); },
              [this](JobId job, ProcessId process) { program_.participant().identify(job, process); }}),
      tasks_(kj::heap<kj::TaskSet>(static_cast<kj::TaskSet::ErrorHandler&>(*this))) {
  if (!handles) return;
  program_.participant().on_failure({}, [this](const ActorFailure& failure) {
    world_.calls.failure_heard(program_.number(), failure.actor);
  });
}

Driver::~Driver() noexcept(false) {
  program_.die(silent_);
  tasks_ = nullptr;
}

void Driver::taskFailed(kj::Exception&&) {}

void Driver::start() { enter(); }

kj::Promise<kj::Own<RpcConnection>> Driver::find_head() {
  Head* head = cluster_.reachable_head(host());
  if (head == nullptr) return kj_exception(Error(ErrorKind::unavailable, "no head can be reached"));
  auto ends = world_.network.connect({host(), &program_.process()}, {head->host(), &head->process()});
  head->accept(kj::mv(ends.second));
  world_.connects(program_.number(), head->number());
  return kj::heap<RpcConnection>(kj::mv(ends.first), nullptr, false);
}

// As Process does.
void Driver::enter() {
  program_.process().spawn(
      "entering",
      reach_.enter().then(
          [this]() -> kj::Promise<void> {
            world_.reach("job opened");
            world_.note(name() + " has job " + to_string(job()));
            world_.judge.job_acknowledged(job());
            return kj::READY_NOW;
          },
          [this](kj::Exception&& failure) -> kj::Promise<void> {
            world_.note(name() + " cannot open its job: " + error_of(failure).message);
            return program_.process().timer().afterDelay(DriverSession::kRetry).then([this] { enter(); });
          }));
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
  KJ_IF_MAYBE (open, session()) {
    auto request = open->spawnRequest();
    auto list = request.initActors(static_cast<unsigned>(wishes.size()));
    std::vector<ActorId> ids;
    for (unsigned i = 0; i < list.size(); ++i) {
      ActorId id = raw_actor(program_.participant().self(), ++spawned_);
      wishes[i].write(list[i], id, {});
      ids.push_back(id);
      actors_.push_back(id);
      world_.actors.push_back(id);
      world_.note(name() + " spawns " + to_string(id) +
                  (wishes[i].name.empty() ? "" : " as " + wishes[i].name));
    }
    ask(kj::Promise<capnp::Response<wire::Session::SpawnResults>>(request.send()),
        [this, ids, wishes](capnp::Response<wire::Session::SpawnResults>&& answer) {
          auto spawned = answer.getSpawned();
          for (unsigned i = 0; i < spawned.size(); ++i) {
            ActorId got{spawned[i].getActor()};
            if (spawned[i].hasFailure()) {
              world_.note(name() + " may not spawn " + to_string(ids[i]));
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
  KJ_IF_MAYBE (open, session()) {
    ActorId actor = actors_[world_.random.below(actors_.size())];
    auto request = open->resolveRequest();
    request.setActor(actor.value);
    request.setAfter(static_cast<std::uint32_t>(world_.random.below(3)));
    ask(kj::Promise<capnp::Response<wire::Session::ResolveResults>>(request.send()),
        [this, actor](capnp::Response<wire::Session::ResolveResults>&& answer) {
          auto state = answer.getState();
          world_.reach("resolved");
          if (acknowledged_.count(actor) > 0)
            world_.judge.told(name() + "'s questions", actor, phase_of(state.getPhase()),
                              state.getIncarnation());
        });
    return true;
  }
  return false;
}

bool Driver::find(const std::string& name) {
  KJ_IF_MAYBE (open, session()) {
    auto request = open->findRequest();
    request.setName(name.c_str());
    ask(kj::Promise<capnp::Response<wire::Session::FindResults>>(request.send()),
        [this](capnp::Response<wire::Session::FindResults>&& answer) {
          auto state = answer.getState();
          world_.reach("found");
          world_.judge.told(this->name() + "'s questions", {state.getActor()}, phase_of(state.getPhase()),
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
  KJ_IF_MAYBE (open, session()) {
    auto request = open->killRequest();
    request.setActor(actor.value);
    request.setNoRestart(no_restart);
    world_.note(name() + " kills " + to_string(actor));
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
  KJ_IF_MAYBE (open, session()) {
    ask(kj::Promise<capnp::Response<wire::Session::NodesResults>>(open->nodesRequest().send()),
        [this](capnp::Response<wire::Session::NodesResults>&&) { world_.reach("nodes listed"); });
    return true;
  }
  return false;
}

// ---- by the product's program ----

bool Driver::spawn_by_product(const Wish& wish) {
  if (!job()) return false;
  Participant& participant = program_.participant();
  if (wish.name.empty()) {
    ActorId actor = participant.spawn(wish.request({}));
    world_.note(name() + " spawns " + to_string(actor));
    if (wish.detached) world_.calls.disowned(actor);
    actors_.push_back(actor);
    world_.actors.push_back(actor);
    return true;
  }
  ++asking_;
  auto asked = std::make_shared<ActorId>();
  *asked = participant.spawn_named(
      wish.request({}), [this, asked, named = wish.name, detached = wish.detached](Result<ActorId> answer) {
        --asking_;
        ActorId actor = answer ? *answer : *asked;
        world_.note(name() + " asked for " + named + " by " + to_string(*asked) + ": " +
                    (answer ? to_string(actor) : answer.error().message));
        // Refused, it may have been spawned before: the answer to that was lost, and its job has ended since.
        if (!answer || detached) world_.calls.disowned(actor);
        if (!answer) return world_.reach("spawn refused");
        world_.judge.spawn_acknowledged(actor);
        actors_.push_back(actor);
        world_.actors.push_back(actor);
        names_.emplace_back(named, actor);
      });
  return true;
}

bool Driver::kill_by_product(ActorId actor, bool no_restart) {
  if (!job()) return false;
  ++asking_;
  program_.participant().kill(actor, no_restart, [this, actor, no_restart](Result<bool> answer) {
    --asking_;
    if (answer && no_restart) world_.judge.kill_acknowledged(actor);
  });
  return true;
}

bool Driver::call(const CallPlan& plan, bool posted) {
  if (!job()) return false;
  if (posted) {
    (void)post_call(program_, program_.lane(0), plan);
    return true;
  }
  program_.on_lane(0, [&](Lane& lane) {
    if (handles_[plan.target]++ == 0) lane.routes().add_handle(lane.routes().of(plan.target));
    (void)make_call(program_, lane, plan);
  });
  return true;
}

bool Driver::cancel_one() {
  auto& calls = program_.calls();
  if (calls.empty()) return false;
  std::uint64_t first = ~std::uint64_t{0};
  for (auto& [number, call] : calls) first = std::min(first, number);
  Ref<SimCall> call = calls.at(first);
  program_.on_lane(0, [&](Lane&) { cancel_call(*call); });
  return true;
}

bool Driver::drop_handle(ActorId actor) {
  if (handles_.erase(actor) == 0) return false;
  program_.on_lane(0, [&](Lane& lane) { lane.routes().drop_handle(actor); });
  return true;
}

ActorId Driver::named(const std::string& name) const {
  for (auto at = names_.rbegin(); at != names_.rend(); ++at) {
    if (at->first == name) return at->second;
  }
  return {};
}

}  // namespace troupe::sim
