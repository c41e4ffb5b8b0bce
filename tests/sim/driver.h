// A simulated driver: the product's participant and session in a Program. Half of what it asks for goes past
// the product's process, over the same session, so that the answers can be judged.
//
// Owner: Cluster. Thread: the simulation's. Destroying it, at the top of a step, is its process's death.
#pragma once

#include <capnp/rpc-twoparty.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/protocol/cluster.capnp.h"
#include "runtime/process/driver_session.h"
#include "tests/sim/program.h"
#include "tests/sim/sim_call.h"
#include "tests/sim/wishes.h"

namespace troupe::sim {

class Cluster;

class Driver final : private kj::TaskSet::ErrorHandler {
 public:
  // On that host; `handles`: it has a handler for failures of its actors.
  Driver(Cluster& cluster, std::string name, std::string host, bool handles);
  ~Driver() noexcept(false);

  void start();
  // False: it has no session.
  bool spawn(const std::vector<Wish>& wishes);
  bool resolve();
  bool find(const std::string& name);
  bool kill_one(bool no_restart);
  bool kill(ActorId actor, bool no_restart);
  bool list_nodes();
  void dies_silently() { silent_ = true; }

  // As the product's program does them; false: it has not opened its job yet.
  bool spawn_by_product(const Wish& wish);
  bool kill_by_product(ActorId actor, bool no_restart);
  bool call(const CallPlan& plan, bool posted);
  bool cancel_one();
  bool drop_handle(ActorId actor);

  const std::string& name() const { return program_.options().name; }
  const std::string& host() const { return program_.options().host; }
  JobId job() { return program_.participant().identity().job; }
  bool connected() { return session() != nullptr; }
  bool over() const { return over_; }  // nobody dealt with a failure: it is to end
  std::size_t asking() const { return asking_; }
  const std::vector<ActorId>& actors() const { return actors_; }
  ActorId named(const std::string& name) const;

 private:
  void enter();
  kj::Promise<kj::Own<RpcConnection>> find_head();
  kj::Maybe<wire::Session::Client>& session() { return program_.participant().plane().session(); }
  // Counts a request until it has ended, whichever way.
  template <class T, class F>
  void ask(kj::Promise<T> promise, F&& then);
  void taskFailed(kj::Exception&& failure) override;

  Cluster& cluster_;
  World& world_;
  std::uint64_t pid_;
  Program program_;
  DriverSession reach_;
  std::uint64_t spawned_ = 0;
  bool over_ = false, silent_ = false;
  std::size_t asking_ = 0;
  std::vector<ActorId> actors_;
  std::set<ActorId> acknowledged_;
  std::vector<std::pair<std::string, ActorId>> names_;
  std::map<ActorId, int> handles_;
  kj::Own<kj::TaskSet> tasks_;
};

}  // namespace troupe::sim
