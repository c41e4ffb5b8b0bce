// A simulated worker process: registers with its agent, hosts actors, spawns children, and ends when its
// channel does, as runtime/process/worker_host does.
//
// Owner: Workers. Thread: the simulation's. die() is called at the top of a step, never from inside the loop.
#pragma once

#include <capnp/rpc-twoparty.h>

#include <functional>
#include <map>

#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/worker/worker_start.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class Worker final : private kj::TaskSet::ErrorHandler {
 public:
  using OnDeath = std::function<void(int wait_status)>;

  Worker(World& world, std::uint64_t pid, std::uint64_t agent, WorkerStart start, std::string host,
         kj::Own<kj::AsyncIoStream> channel, OnDeath on_death);
  ~Worker() noexcept(false);

  void begin(std::uint64_t fingerprint);  // connects and registers
  void die(int wait_status);              // once; the object is to be dropped after it

  // Things a workload makes it do; false when there is nothing to do them with.
  bool spawn_child();
  bool fail_one_actor();

  std::uint64_t pid() const { return pid_; }
  std::uint64_t agent() const { return agent_; }
  std::uint64_t job() const { return start_.job; }
  std::uint64_t process() const { return start_.process; }
  const std::string& host() const { return host_; }
  bool dead() const { return dead_; }

 private:
  class Server;
  struct Actor {
    std::uint32_t incarnation;
    std::uint64_t key;  // of the judge
    bool alive = false;
  };
  void place(wire::Placement::Reader placement);
  void destroy(std::uint64_t actor, std::uint32_t incarnation);
  void constructed(std::uint64_t actor, std::uint32_t incarnation);
  void report_alive(std::uint64_t actor, std::uint32_t incarnation);
  void report_failed(std::uint64_t actor, std::uint32_t incarnation);
  void later(Micros delay, std::function<void()> what);
  void taskFailed(kj::Exception&& failure) override;

  World& world_;
  std::uint64_t pid_, agent_;
  WorkerStart start_;
  std::string host_;
  OnDeath on_death_;
  kj::Maybe<kj::Own<kj::AsyncIoStream>> stream_;
  kj::Maybe<kj::Own<RpcConnection>> channel_;
  kj::Maybe<wire::WorkerHost::Client> to_agent_;
  kj::Maybe<wire::Session::Client> session_;
  bool registered_ = false;
  bool dead_ = false;
  std::map<std::uint64_t, Actor> actors_;
  std::uint64_t spawned_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  kj::Own<kj::TaskSet> tasks_;
};

}  // namespace troupe::sim
