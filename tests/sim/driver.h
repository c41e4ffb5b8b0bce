// A simulated driver: opens a job, asks for things over a real session, hears news, comes back to its job
// when the connection or the head is lost.
//
// Owner: Cluster. Thread: the simulation's. Destroying it, at the top of a step, is its process's death.
#pragma once

#include <capnp/rpc-twoparty.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/protocol/cluster.capnp.h"
#include "tests/sim/wishes.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class Cluster;

class Driver final : private kj::TaskSet::ErrorHandler {
 public:
  Driver(Cluster& cluster, std::string name);
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

  const std::string& name() const { return name_; }
  JobId job() const { return job_; }
  bool connected() const { return session_ != nullptr; }
  bool over() const { return over_; }  // its job has ended
  std::size_t asking() const { return asking_; }
  const std::vector<ActorId>& actors() const { return actors_; }
  ActorId named(const std::string& name) const;

 private:
  class Client;
  void connect();
  void lost(std::uint64_t connection);
  void changed(capnp::List<wire::ActorState>::Reader states);
  // Counts a request until it has ended, whichever way.
  template <class T, class F>
  void ask(kj::Promise<T> promise, F&& then);
  void later(Micros delay, std::function<void()> what);
  void taskFailed(kj::Exception&& failure) override;

  Cluster& cluster_;
  World& world_;
  std::string name_;
  std::uint64_t pid_;
  SimProcess process_;
  JobId job_;
  std::uint64_t process_number_ = 0;
  std::uint64_t spawned_ = 0;
  bool over_ = false, silent_ = false, connecting_ = false;
  std::size_t asking_ = 0;
  std::uint64_t connection_ = 0;
  std::vector<ActorId> actors_;
  std::set<ActorId> acknowledged_;
  std::vector<std::pair<std::string, ActorId>> names_;
  kj::Maybe<wire::Session::Client> session_;
  kj::Own<kj::AsyncIoStream> stream_;
  kj::Own<capnp::TwoPartyClient> client_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  kj::Own<kj::TaskSet> tasks_;
};

}  // namespace troupe::sim
