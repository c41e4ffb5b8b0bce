#include "runtime/process/supervisor.h"

namespace troupe {

void Supervisor::own(ActorId actor, ActorId owner, FailureHandler handler) {
  owned_[actor] = {owner, std::move(handler), true};
}

void Supervisor::set_handler(ActorId owner, FailureHandler handler) {
  if (handler)
    handlers_[owner] = std::move(handler);
  else
    handlers_.erase(owner);
}

void Supervisor::died(ActorFailure failure) {
  ActorId owner;
  FailureHandler handler;
  if (auto at = owned_.find(failure.actor); at != owned_.end()) {
    bool ours = at->second.ours;
    owner = at->second.owner;
    handler = std::move(at->second.handler);
    owned_.erase(at);
    if (!ours) return;
  }
  if (failure.error.kind == ErrorKind::cancelled) return;  // it was told to end
  if (!handler) {
    auto at = handlers_.find(owner);
    if (at != handlers_.end()) handler = at->second;
  }
  std::weak_ptr<int> alive = alive_;
  if (handler) {
    hooks_.run(owner, std::move(handler), failure,
               [this, alive, owner, failure](std::shared_ptr<Error> threw) {
                 if (!alive.expired() && threw) escalate(owner, failure, threw.get());
               });
    return;
  }
  open_.emplace(failure.actor, early_.erase(failure.actor) > 0);
  loop_.spawn("a failure's grace", loop_.timer().afterDelay(kGrace).then([this, alive, owner, failure] {
    if (alive.expired()) return;
    auto at = open_.find(failure.actor);
    if (at == open_.end()) return;
    bool observed = at->second;
    open_.erase(at);
    if (!observed) escalate(owner, failure, nullptr);
  }));
}

void Supervisor::observed(ActorId actor) {
  auto at = open_.find(actor);
  if (at != open_.end()) {
    at->second = true;
    return;
  }
  if (early_.size() >= kMostEarly) early_.clear();
  early_.insert(actor);
}

void Supervisor::owner_ended(ActorId owner) {
  handlers_.erase(owner);
  std::erase_if(owned_, [owner](const auto& entry) { return entry.second.owner == owner; });
}

void Supervisor::escalate(ActorId owner, const ActorFailure& failure, const Error* handler_threw) {
  std::string what = failure.class_name + " " + to_string(failure.actor);
  Error error(ErrorKind::actor_died, handler_threw == nullptr
                                         ? "its actor " + what + " failed, and nobody dealt with it"
                                         : "its actor " + what + " failed, and so did the handler of that: " +
                                               handler_threw->message);
  error.actor = owner;
  error.because(failure.error);
  hooks_.fail(owner, std::move(error));
}

}  // namespace troupe
