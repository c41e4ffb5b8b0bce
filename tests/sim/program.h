// A simulated process with the product's call layer: a participant (runtime/process) on simulated time, and
// lanes that are stepped as events. Links go over the simulated network.
//
// Owner: a driver or a worker. Thread: the simulation's. Lifetime: killed at the top of a step; what it had
// sent may still arrive. User code that ends with the process sees dead() and reports nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/process/participant.h"
#include "runtime/process/worker_host.h"
#include "tests/sim/sim_process.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class SimCall;

class Program {
 public:
  struct Options {
    std::string name;  // in the trace
    std::string host;  // of the network
    int lanes = 1;
    bool drivable = false;
    std::uint64_t fingerprint = 1;
    std::string host_id;
    ProcessId process;  // of a worker; a driver is given it later
    JobId job;
    std::uint64_t agent = 0;      // of a worker
    std::function<void()> crash;  // to be killed at the end of the step
  };
  Program(World& world, Options options, std::function<void(const Error&)> fail);
  ~Program() noexcept(false);
  Program(const Program&) = delete;

  // Kills the process. `silent`: as with its machine.
  void die(bool silent);
  bool dead() const { return dead_; }
  std::weak_ptr<int> alive() const { return alive_; }  // expires with it
  void crash();                                        // in the midst of its code: nothing leaves it any more
  void freeze() { process_.freeze(); }
  void thaw();

  World& world() { return world_; }
  SimProcess& process() { return process_; }
  Participant& participant() { return participant_; }
  const Options& options() const { return options_; }
  std::uint64_t number() const { return number_; }  // names the process in the judge
  void serve(WorkerHost* host) { host_ = host; }

  Lane& lane(std::size_t index) { return *participant_.lanes()[index]; }
  // Runs code of a thread that is on no lane: takes the lane's baton, as such a thread does.
  void on_lane(std::size_t index, const std::function<void(Lane&)>& code);

  // Calls that have not ended; they keep themselves here.
  std::unordered_map<std::uint64_t, Ref<SimCall>>& calls() { return calls_; }

  // The one whose code runs now.
  static Program* current();

 private:
  struct Rung {
    bool scheduled = false;
    Micros alarm = 0;  // when it is to be stepped without a ring; 0: not
    std::unordered_set<int> ready;
  };
  class Connecting;
  void ring(std::size_t lane);
  void step(std::size_t lane);
  void alarm(std::size_t lane, std::int64_t wake);
  std::unique_ptr<Link> link(std::unique_ptr<Network::Wire> wire, bool shared, std::size_t lane);
  kj::Promise<kj::Own<std::unique_ptr<Link>>> connect(const Place& place, const LinkIdentity& self,
                                                      Lane& lane);
  void accept(std::unique_ptr<Network::Wire> wire, bool shared, std::uint64_t process);
  template <class F>
  void as_current(F&& code);

  World& world_;
  Options options_;
  std::uint64_t number_;
  SimProcess process_;
  Participant participant_;
  WorkerHost* host_ = nullptr;
  std::vector<Rung> rungs_;
  std::unordered_map<std::uint64_t, Ref<SimCall>> calls_;
  std::vector<std::unique_ptr<Network::Wire>> greeting_;  // callers that have not said whom they want
  int descriptors_ = 0;
  bool dead_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace troupe::sim
