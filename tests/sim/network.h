// A simulated network: streams between hosts whose bytes arrive after a drawn delay, in order. Paths can be
// partitioned (bytes wait), connections cut (both ends see it) or left half-open (the far end hears nothing).
//
// Owner: the simulation. Thread: one. Lifetime: outlives all streams.
#pragma once

#include <kj/async-io.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/sim_process.h"
#include "tests/sim/trace.h"
#include "tests/sim/virtual_time.h"

namespace troupe::sim {

// Where a stream ends: a process on a host. A frozen one takes nothing; a dead one sends nothing.
struct Endpoint {
  std::string host;
  SimProcess* process = nullptr;  // null: never frozen
};

class Network {
 public:
  struct Options {
    Micros least = 50, most = 2'000;  // delay of a chunk
    unsigned slow_per_mille = 10;     // chunks that take up to `slowest`
    Micros slowest = 300 * kMilli;
  };
  struct Ends {
    kj::Own<kj::AsyncIoStream> first, second;
  };
  class Connection;
  // An end for those who take bytes without KJ.
  class Wire {
   public:
    Wire(std::shared_ptr<Connection> connection, int side);
    ~Wire();
    Wire(const Wire&) = delete;
    void write(std::span<const std::byte> bytes);
    void take(std::vector<std::byte>& into);  // appends what has arrived
    bool has_bytes() const;
    bool over() const;                          // nothing more will arrive
    void close();                               // what was written still leaves
    void on_event(std::function<void()> what);  // bytes, or the end, have arrived

   private:
    std::shared_ptr<Connection> connection_;
    int side_;
  };
  struct Wires {
    std::unique_ptr<Wire> first, second;
  };

  Network(VirtualTime& time, Random& random, Trace& trace, Options options);
  ~Network() noexcept(false);

  Ends connect(Endpoint first, Endpoint second);
  Wires connect_wires(Endpoint first, Endpoint second);

  // Between two hosts, both ways; bytes wait and arrive after heal().
  void partition(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  void heal_all();
  bool partitioned(const std::string& a, const std::string& b) const;
  // Resets the connections between two hosts; false when there is none.
  bool cut(const std::string& a, const std::string& b);

  // The process is about to be destroyed: nothing it writes from now on leaves. `silent`: its peers are not
  // told, as when a machine loses power.
  void dies(SimProcess* process, bool silent);
  void thawed();  // a process goes on: what waited for it arrives

  void flush();  // at the end of a moment: what was written in it leaves
  std::uint64_t chunks() const { return chunks_; }

 private:
  friend class Connection;
  std::shared_ptr<Connection> make(Endpoint first, Endpoint second);
  Micros delay();
  void release_stalled();

  VirtualTime& time_;
  Random& random_;
  Trace& trace_;
  Options options_;
  std::set<std::pair<std::string, std::string>> partitions_;
  std::map<std::uint64_t, std::weak_ptr<Connection>> connections_;
  std::vector<std::weak_ptr<Connection>> dirty_;
  std::uint64_t last_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace troupe::sim
