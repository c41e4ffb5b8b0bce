// Options of actors and calls: small classes with setters, each with the defaults stated.
#pragma once

#include <chrono>
#include <string>

#include "core/base/resources.h"
#include "runtime/process/actor_failure.h"

namespace troupe {

enum class Isolation {
  process,  // a process of its own: a crash, a leak or a blocked thread harms no other actor
  light,  // shares a worker process with the job's other light actors on its node: thousands a second, ~1 KB
          // each
};

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
  // How often it is made again after its process or node died; -1: without limit. Default: 0.
  ActorOptions& max_restarts(int value) { return max_restarts_ = value, *this; }
  // Only restarts in any span of this length count against max_restarts. Default: all of the actor's life.
  ActorOptions& within(std::chrono::milliseconds value) { return restart_window_ = value, *this; }
  // Told when the actor is dead for good and was not told to end: troupe/supervision.h. It runs where the
  // spawner does. Default: the owner's own handler.
  ActorOptions& on_failure(FailureHandler handler) { return on_failure_ = std::move(handler), *this; }
  ActorOptions& isolation(Isolation value) { return isolation_ = value, *this; }
  ActorOptions& light() { return isolation(Isolation::light); }

  const std::string& name() const { return name_; }
  const std::string& node() const { return node_; }
  bool get_or_create() const { return get_or_create_; }
  bool detached() const { return detached_; }
  int max_restarts() const { return max_restarts_; }
  std::chrono::milliseconds within() const { return restart_window_; }
  const FailureHandler& on_failure() const { return on_failure_; }
  Isolation isolation() const { return isolation_; }
  const Resources& resources() const { return resources_; }

 private:
  std::string name_, node_;
  bool get_or_create_ = false, detached_ = false;
  int max_restarts_ = 0;
  std::chrono::milliseconds restart_window_{0};
  FailureHandler on_failure_;
  Isolation isolation_ = Isolation::process;
  Resources resources_;
};

class CallOptions {
 public:
  // The call fails with DeadlineExceeded this long after it was made. Default: none.
  CallOptions& deadline(std::chrono::nanoseconds value) { return deadline_ = value, *this; }
  // Sent again up to n times when the actor died before it answered: the method may then run more than once.
  // Default: 0, at most once.
  CallOptions& retries(int n) { return retries_ = n, *this; }

  std::chrono::nanoseconds deadline() const { return deadline_; }
  int retries() const { return retries_; }

 private:
  std::chrono::nanoseconds deadline_{0};
  int retries_ = 0;
};

}  // namespace troupe
