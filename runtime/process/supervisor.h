// Failures of actors that this process's code has spawned, on their way to the owner: the actor that was
// running when they were spawned, or the driver's own code. An actor that is dead for good, and was not told
// to end, is a failure. It is dealt with when
//   - the handler of the actor, else that of its owner, returns; or
//   - a caller in this process has got the error, within kGrace;
// otherwise the owner fails too, with this failure as its cause: an actor restarts or dies by its own policy,
// and a driver ends.
//
// Owner: Process. Thread: the control thread. Lifetime: as long as the control plane; what waits is dropped
// with it. Bounded by the actors this process spawned; what concerns a dead actor is forgotten after its
// grace.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/control/executor.h"
#include "runtime/process/actor_failure.h"

namespace troupe {

class Supervisor {
 public:
  static constexpr auto kGrace = 2 * kj::SECONDS;
  struct Hooks {
    // Runs the handler in the owner's turn (0: the driver's lane), then calls `done` on the control thread
    // with what it threw, or null.
    std::function<void(ActorId owner, FailureHandler, ActorFailure,
                       std::function<void(std::shared_ptr<Error>)> done)>
        run;
    // The owner fails; 0: the driver.
    std::function<void(ActorId owner, Error)> fail;
  };

  Supervisor(Executor& loop, Hooks hooks) : loop_(loop), hooks_(std::move(hooks)) {}
  Supervisor(const Supervisor&) = delete;

  // At the spawn. Not needed for the driver's actors without a handler of their own.
  void own(ActorId actor, ActorId owner, FailureHandler handler);
  // A detached one: it belongs to the cluster.
  void disown(ActorId actor) { owned_[actor] = {{}, nullptr, false}; }
  // For all actors of that owner (0: the driver) that have none of their own.
  void set_handler(ActorId owner, FailureHandler handler);

  void died(ActorFailure failure);
  void observed(ActorId actor);
  // It ended here: what it owns ends as well, by the head's word, and concerns nobody.
  void owner_ended(ActorId owner);

 private:
  struct Owned {
    ActorId owner;
    FailureHandler handler;
    bool ours = true;
  };
  void escalate(ActorId owner, const ActorFailure& failure, const Error* handler_threw);

  Executor& loop_;
  Hooks hooks_;
  std::unordered_map<ActorId, Owned> owned_;
  std::unordered_map<ActorId, FailureHandler> handlers_;
  static constexpr std::size_t kMostEarly = 1000;
  std::unordered_map<ActorId, bool> open_;  // failures in their grace → observed
  std::unordered_set<ActorId> early_;       // observed before the head's news came; some may be forgotten
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for tasks on the loop
};

}  // namespace troupe
