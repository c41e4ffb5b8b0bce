#include "runtime/process/participant.h"

#include "core/base/throws_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/class_table.h"
#include "runtime/call/invocation.h"
#include "runtime/call/route.h"
#include "runtime/process/worker_host.h"

namespace troupe {
namespace {

// A failure's handler, run as the owner's code. Deletes itself.
class OwnersTurn final : public Runnable {
 public:
  using Done = std::function<void(std::shared_ptr<Error> threw)>;
  OwnersTurn(ActorId owner, FailureHandler handler, ActorFailure failure, Done done)
      : owner_(owner), handler_(std::move(handler)), failure_(std::move(failure)), done_(std::move(done)) {}
  void run() override {
    ActorCell* cell = nullptr;
    if (owner_) {
      auto& actors = Lane::current()->actors();
      auto at = actors.find(owner_);
      if (at == actors.end()) return discard();  // it has ended, and what it owned ends with it
      cell = at->second;
      cell->enter();
    }
    Current before = std::exchange(current(), Current{cell, nullptr});
    std::shared_ptr<Error> threw;
    try {
      handler_(failure_);
    } catch (...) {
      threw = std::make_shared<Error>(current_error());
    }
    current() = before;
    if (cell != nullptr) cell->leave();
    done_(std::move(threw));
    delete this;
  }
  void discard() override { delete this; }

 private:
  ActorId owner_;
  FailureHandler handler_;
  ActorFailure failure_;
  Done done_;
};

}  // namespace

void Participant::start(Executor& loop, LinkIdentity self, Outside outside) {
  loop_ = &loop;
  self_ = std::move(self);
  outside_ = std::move(outside);
  supervisor_ = std::make_unique<Supervisor>(loop, supervision());
  plane_ = std::make_unique<ControlPlane>(loop, self_, hooks());
}

void Participant::stop() {
  plane_ = nullptr;
  supervisor_ = nullptr;
}

void Participant::identify(JobId job, ProcessId process) {
  // One that comes back to its head keeps its numbers, which the lanes read.
  if (self_.job == job && self_.process == process) return;
  self_.job = job;
  self_.process = process;
  plane_->identify(self_);
}

// ---- what the control plane and the supervisor tell ----

ControlPlane::Hooks Participant::hooks() {
  ControlPlane::Hooks hooks;
  hooks.node_lost = [this](NodeId lost) {
    if (host_ != nullptr) host_->node_lost(lost);
    for (auto& lane : lanes_)
      lane->post_function([lane = lane.get(), lost] { lane->routes().node_lost(lost); });
  };
  hooks.incarnation_over = [this](ActorId actor, std::uint32_t incarnation,
                                  std::shared_ptr<const Error> cause) {
    for (auto& lane : lanes_) {
      lane->post_function([lane = lane.get(), actor, incarnation, cause] {
        lane->routes().incarnation_over(actor, incarnation, cause);
      });
    }
  };
  hooks.died = [this](const ActorNews& news) {
    Error why = news.failure ? *news.failure : Error(ErrorKind::actor_died, "it ended");
    supervisor_->died({news.actor, news.class_name, std::move(why)});
  };
  hooks.connect = outside_.connect;
  return hooks;
}

Supervisor::Hooks Participant::supervision() {
  Supervisor::Hooks hooks;
  hooks.run = [this](ActorId owner, FailureHandler handler, ActorFailure failure,
                     std::function<void(std::shared_ptr<Error>)> done) {
    Lane* lane = !owner ? lanes_.front().get() : host_ ? host_->lane_of(owner) : nullptr;
    if (lane == nullptr) return;
    auto* item = new OwnersTurn(owner, std::move(handler), std::move(failure),
                                [this, done = std::move(done)](std::shared_ptr<Error> threw) {
                                  post([done, threw] { done(threw); });
                                });
    lane->post_function([lane, item] { lane->schedule(item); });
  };
  hooks.fail = [this](ActorId owner, Error why) { fail_owner(owner, std::move(why)); };
  return hooks;
}

void Participant::fail_owner(ActorId owner, Error why) {
  if (owner && host_) return host_->fail(owner, why);
  outside_.fail(why);
}

// ---- requests ----

// Actors and groups are numbered alike, each with a counter of its own.
ActorId Participant::next_number(std::atomic<std::uint64_t>& counter) {
  std::uint64_t n = counter.fetch_add(1) + 1;
  if (n > kActorsPerProcess) {
    throw ThrowsError(Error(ErrorKind::overloaded, "this process has made " +
                                                       std::to_string(kActorsPerProcess) +
                                                       " actors or groups, the most a process can"));
  }
  return actor_of(self_.process, n);
}

void Participant::flush_spawns() {
  std::vector<SpawnRequest> requests;
  {
    std::lock_guard lock(mutex_);
    requests.swap(spawns_);
    spawn_posted_ = false;
  }
  for (SpawnRequest& request : requests) supervise(request);
  if (!requests.empty()) plane_->spawn(std::move(requests));
}

void Participant::supervise(SpawnRequest& request) {
  if (request.detached)
    supervisor_->disown(request.actor);
  else if (request.owner || request.on_failure)
    supervisor_->own(request.actor, request.owner, std::move(request.on_failure));
}

ActorId Participant::spawn(SpawnRequest request) {
  ActorId actor = request.actor = next_number(spawned_);
  bool post_it = false;
  {
    std::lock_guard lock(mutex_);
    spawns_.push_back(std::move(request));
    post_it = !std::exchange(spawn_posted_, true);
  }
  if (post_it) post([this] { flush_spawns(); });
  return actor;
}

ActorId Participant::spawn_named(SpawnRequest request, Answer<ActorId> answer) {
  ActorId asked = request.actor = next_number(spawned_);
  post([this, request = std::move(request), answer = std::move(answer)]() mutable {
    flush_spawns();
    supervise(request);
    plane_->spawn_named(std::move(request), std::move(answer));
  });
  return asked;
}

void Participant::find(const std::string& name, const std::string& class_name, Answer<ActorId> answer) {
  post([this, name, class_name, answer = std::move(answer)] { plane_->find(name, class_name, answer); });
}

void Participant::kill(ActorId actor, bool no_restart, Answer<bool> answer) {
  post([this, actor, no_restart, answer = std::move(answer)] {
    flush_spawns();
    plane_->kill(actor, no_restart, answer);
  });
}

void Participant::nodes(Answer<std::vector<NodeSummary>> answer) {
  post([this, answer = std::move(answer)] { plane_->nodes(answer); });
}

void Participant::on_failure(ActorId owner, FailureHandler handler) {
  post([this, owner, handler = std::move(handler)] { supervisor_->set_handler(owner, handler); });
}

std::uint64_t Participant::new_group() { return next_number(groups_).value; }

void Participant::join_group(GroupJoinRequest request, GroupJoined joined, GroupBroken broken) {
  post(
      [this, request = std::move(request), joined = std::move(joined), broken = std::move(broken)]() mutable {
        plane_->groups().join(std::move(request), std::move(joined), std::move(broken));
      });
}

void Participant::post_to_group(GroupPostRequest request, GroupPosted posted) {
  post([this, request = std::move(request), posted = std::move(posted)]() mutable {
    plane_->groups().post(std::move(request), std::move(posted));
  });
}

void Participant::leave_group(std::uint64_t group, ActorId actor, std::uint32_t incarnation) {
  post([this, group, actor, incarnation] { plane_->groups().leave(group, actor, incarnation); });
}

void Participant::observed(ActorId actor) {
  post([this, actor] { supervisor_->observed(actor); });
}

void Participant::resolve(ActorId actor, std::uint32_t after, Lane& lane) {
  post([this, actor, after, &lane] {
    flush_spawns();
    plane_->resolve(actor, after, lane);
  });
}

void Participant::connect(std::shared_ptr<const Place> place, Lane& lane) {
  post([this, place = std::move(place), &lane] { plane_->connect(place, lane); });
}

Lane* Participant::lane_at(std::uint16_t index) {
  return index < lanes_.size() ? lanes_[index].get() : nullptr;
}

}  // namespace troupe
