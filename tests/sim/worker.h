// A simulated worker process: the product's WorkerHost in a Program, and what a real process adds to it: it
// starts, it registers over its channel, it dies.
//
// Owner: Workers. Thread: the simulation's. die() is called at the top of a step, never from inside the loop.
#pragma once

#include <functional>
#include <memory>

#include "core/control/rpc.h"
#include "runtime/worker/worker_start.h"
#include "tests/sim/program.h"

namespace troupe::sim {

class Worker final {
 public:
  using OnDeath = std::function<void(int wait_status)>;

  Worker(World& world, std::uint64_t pid, std::uint64_t agent, WorkerStart start, std::string host,
         kj::Own<kj::AsyncIoStream> channel, OnDeath on_death);
  ~Worker() noexcept(false);

  void begin(std::uint64_t fingerprint);           // connects and registers
  void die(int wait_status, bool silent = false);  // once; the object is to be dropped after it

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
  ActorId some_actor() const;  // that runs here, or none
  void later(Micros delay, std::function<void()> what);

  World& world_;
  std::uint64_t pid_, agent_;
  WorkerStart start_;
  std::string host_;
  OnDeath on_death_;
  kj::Maybe<kj::Own<kj::AsyncIoStream>> stream_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<WorkerHost> server_;
  kj::Maybe<kj::Own<RpcConnection>> channel_;
  bool dead_ = false;
  std::uint64_t spawned_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace troupe::sim
