// All simulated workers of a cluster, and the starters that agents get them from.
//
// Owner: Cluster. Thread: the simulation's.
#pragma once

#include <map>
#include <memory>

#include "runtime/agent/starter.h"
#include "tests/sim/sim_process.h"
#include "tests/sim/worker.h"

namespace troupe::sim {

class Workers {
 public:
  explicit Workers(World& world) : world_(world) {}
  Workers(const Workers&) = delete;

  // For one agent: its process and number (World::new_pid), its host.
  Starter::Factory starters(SimProcess& process, std::uint64_t agent, std::string host);

  const std::map<std::uint64_t, std::unique_ptr<Worker>>& all() const { return all_; }
  Worker* any();  // one at random, or null
  std::size_t of_agent(std::uint64_t agent) const;
  void crash(std::uint64_t pid, int wait_status);
  // The agent is dead, whatever of its code still lies about: its starters end their workers.
  void agent_died(std::uint64_t agent);
  bool crash_starter();  // one at random: a job's zygote dies, and its workers with it
  void clear() { all_.clear(); }

 private:
  class SimStarter;
  struct State;
  void bury(std::uint64_t pid);

  World& world_;
  std::map<std::uint64_t, std::unique_ptr<Worker>> all_;
  std::map<std::uint64_t, std::weak_ptr<State>> starters_;
};

}  // namespace troupe::sim
