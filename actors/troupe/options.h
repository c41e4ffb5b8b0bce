// Options of actors and calls: small classes with setters, each with the defaults stated.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/base/resources.h"
#include "runtime/process/actor_failure.h"
#include "troupe/durable.h"

namespace troupe {

enum class Isolation {
  process,  // a process of its own: a crash, a leak or a blocked thread harms no other actor
  light,  // shares a worker process with the job's other light actors on its node: thousands a second, ~1 KB
          // each
};

class DurableActorOptions;

class ActorOptions {
 public:
  // A cluster-wide name; AlreadyExists when it is taken by a live actor. Default: none.
  ActorOptions& name(std::string value) { return name_ = std::move(value), *this; }
  // Returns the actor of that name if there is one. Needs a name.
  ActorOptions& get_or_create(bool value = true) { return get_or_create_ = value, *this; }
  // Lives on when its spawner and job end. Default: no.
  ActorOptions& detached(bool value = true) { return detached_ = value, *this; }
  // Reserved on the node while the actor lives; fractions of 1/10,000. Defaults: 0. InvalidArgument when
  // negative.
  ActorOptions& cpus(double value) { return resource("cpu", value); }
  // Less than one: a share of one GPU. Sets CUDA_VISIBLE_DEVICES for actors with a process of their own.
  ActorOptions& gpus(double value) { return resource("gpu", value); }
  ActorOptions& memory(double bytes) { return resource("memory", bytes); }
  ActorOptions& resource(const std::string& name, double amount);
  // Only on the node of this name. Default: any node.
  ActorOptions& node(std::string name) { return node_ = std::move(name), *this; }
  // How often it is made again after its process or node died; -1: without limit. Default: 0; durable: -1.
  ActorOptions& max_restarts(int value) { return max_restarts_ = value, *this; }
  // Only restarts in any span of this length count against max_restarts. Default: all of the actor's life.
  ActorOptions& within(std::chrono::milliseconds value) { return restart_window_ = value, *this; }
  // Told when the actor is dead for good and was not told to end: troupe/supervision.h. It runs where the
  // spawner does. Default: the owner's own handler.
  ActorOptions& on_failure(FailureHandler handler) { return on_failure_ = std::move(handler), *this; }
  ActorOptions& isolation(Isolation value) { return isolation_ = value, *this; }
  ActorOptions& light() { return isolation(Isolation::light); }
  // Its state survives its process; spawning a class without save and load then does not compile. It is made
  // again without limit, unless max_restarts says otherwise.
  DurableActorOptions durable(Durable value) const;

  const std::string& name() const { return name_; }
  const std::string& node() const { return node_; }
  bool get_or_create() const { return get_or_create_; }
  bool detached() const { return detached_; }
  int max_restarts() const { return max_restarts_.value_or(durability_ ? -1 : 0); }
  const std::optional<Durability>& durability() const { return durability_; }
  std::chrono::milliseconds within() const { return restart_window_; }
  const FailureHandler& on_failure() const { return on_failure_; }
  Isolation isolation() const { return isolation_; }
  const Resources& resources() const { return resources_; }

 private:
  std::string name_, node_;
  bool get_or_create_ = false, detached_ = false;
  std::optional<int> max_restarts_;
  std::chrono::milliseconds restart_window_{0};
  FailureHandler on_failure_;
  Isolation isolation_ = Isolation::process;
  Resources resources_;
  std::optional<Durability> durability_;
};

// The same setters, so that the compiler knows what is spawned with them.
class DurableActorOptions : public ActorOptions {
 public:
  DurableActorOptions& name(std::string value) { return ActorOptions::name(std::move(value)), *this; }
  DurableActorOptions& get_or_create(bool value = true) { return ActorOptions::get_or_create(value), *this; }
  DurableActorOptions& detached(bool value = true) { return ActorOptions::detached(value), *this; }
  DurableActorOptions& cpus(double value) { return ActorOptions::cpus(value), *this; }
  DurableActorOptions& gpus(double value) { return ActorOptions::gpus(value), *this; }
  DurableActorOptions& memory(double bytes) { return ActorOptions::memory(bytes), *this; }
  DurableActorOptions& resource(const std::string& name, double amount) {
    return ActorOptions::resource(name, amount), *this;
  }
  DurableActorOptions& node(std::string name) { return ActorOptions::node(std::move(name)), *this; }
  DurableActorOptions& max_restarts(int value) { return ActorOptions::max_restarts(value), *this; }
  DurableActorOptions& within(std::chrono::milliseconds value) { return ActorOptions::within(value), *this; }
  DurableActorOptions& on_failure(FailureHandler handler) {
    return ActorOptions::on_failure(std::move(handler)), *this;
  }
  DurableActorOptions& isolation(Isolation value) { return ActorOptions::isolation(value), *this; }
  DurableActorOptions& light() { return ActorOptions::light(), *this; }
  using ActorOptions::get_or_create, ActorOptions::detached, ActorOptions::name, ActorOptions::node,
      ActorOptions::max_restarts, ActorOptions::isolation, ActorOptions::within, ActorOptions::on_failure;

 private:
  friend class ActorOptions;
  explicit DurableActorOptions(const ActorOptions& from) : ActorOptions(from) {}
};

inline DurableActorOptions ActorOptions::durable(Durable value) const {
  DurableActorOptions out(*this);
  out.durability_ = value.plan();
  return out;
}

class CallOptions {
 public:
  // The call fails with DeadlineExceeded this long after it was made. Default: none.
  CallOptions& deadline(std::chrono::nanoseconds value) { return deadline_ = value, *this; }
  // Sent again up to n times when the actor died before it answered: the method may then run more than once.
  // Default: 0, at most once.
  CallOptions& retries(int n) { return retries_ = n, *this; }

  // Of a method that returns an ObjectRef: when the object is lost with its node, the call is made again, up
  // to n times, as soon as somebody in this process wants to read it. The arguments are kept meanwhile; those
  // that are themselves references that can be recomputed are, first. Default: 0, ObjectLost.
  CallOptions& recompute(int n) { return recompute_ = n, *this; }

  std::chrono::nanoseconds deadline() const { return deadline_; }
  int retries() const { return retries_; }
  int recompute() const { return recompute_; }

 private:
  std::chrono::nanoseconds deadline_{0};
  int retries_ = 0, recompute_ = 0;
};

}  // namespace troupe
