// What every part of a simulated cluster stands on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "tests/sim/call_judge.h"
#include "tests/sim/disk.h"
#include "tests/sim/judge.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/virtual_time.h"

namespace troupe::sim {

class Program;

// How often things go wrong by themselves, per mille of the occasions.
struct Chances {
  unsigned starter_fails = 0;      // a job's zygote cannot be started, or dies before it is ready
  unsigned launch_fails = 0;       // of a worker
  unsigned worker_hangs = 0;       // it never registers
  unsigned worker_dies_early = 0;  // before it registers
  unsigned constructor_fails = 0;
  unsigned repeated_report = 0;  // a worker says twice what it has to say
  unsigned silent_death = 0;     // of a process: its peers hear nothing
  unsigned points = 0;           // a fault point fires; those that crash, three times less often
  DiskStore::Faults store;
};

struct World {
  World(std::uint64_t seed, bool keep_trace, Network::Options network_options)
      : random(seed),
        trace(keep_trace),
        network(time, random, trace, network_options),
        judge(disk),
        calls(judge) {
    time.on_settled = [this] { network.flush(); };
    running = this;
    simulated_steady_ns = [] { return steady_of(running->time.now()); };
  }
  ~World() {
    simulated_steady_ns = nullptr;
    running = nullptr;
  }

  // What the lanes take for the time; never 0.
  static std::int64_t steady_of(Micros time) { return (time + kSecond) * 1000; }
  static Micros micros_of(std::int64_t steady) { return (steady + 999) / 1000 - kSecond; }

  void note(const std::string& text) { trace.add(time.now(), text); }
  template <class... Parts>
  void note_parts(const Parts&... parts) {
    trace.add(time.now(), parts...);
  }
  void reach(const std::string& what) { ++reached[what]; }
  std::uint64_t new_pid() { return ++last_pid; }

  VirtualTime time;
  Random random;
  Trace trace;
  Network network;
  Disk disk;
  Judge judge;
  CallJudge calls;
  Chances chances;
  std::uint64_t heads_started = 0;
  // The head that a driver or an agent, by its pid, has connected to last, and the one before.
  struct Connected {
    std::uint64_t head = 0, before = 0;
    Micros since = 0;
  };
  std::map<std::uint64_t, Connected> connected;
  void connects(std::uint64_t pid, std::uint64_t head) {
    Connected& one = connected[pid];
    if (one.head != head) one = {head, one.head, time.now()};
  }
  std::map<std::uint64_t, Program*> programs;    // that take links, by the number of their process
  std::vector<ActorId> actors;                   // ever asked for
  inline static World* running = nullptr;        // one at a time
  std::map<std::string, std::uint64_t> reached;  // what happened, and how often
  // Above every pid the kernel gives out, so that no signal of a mistaken product reaches a real process.
  std::uint64_t last_pid = 10'000'000;
};

}  // namespace troupe::sim
