// The product's head in a simulated process.
//
// Owner: Cluster. Thread: the simulation's. Killed by its destruction, at the top of a step. Lifetime of what
// it was: what it had sent may still arrive.
#pragma once

#include <capnp/rpc-twoparty.h>

#include <memory>

#include "gcs/head/head_server.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim_process.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class Head {
 public:
  enum class State { loading, serving, over };

  Head(World& world, std::string host);
  ~Head() noexcept(false);

  State state() const { return state_; }
  std::uint64_t checked_events = ~std::uint64_t{0}, checked_facts = 0;  // as of the last check
  bool owns_store() const { return store_.owns(); }
  const gcs::ControlStore& core() const { return server_->core(); }
  SimProcess& process() { return process_; }
  std::uint64_t number() const { return number_; }  // the first head is 1
  const std::string& host() const { return host_; }
  // Takes a connection that reaches its port.
  void accept(kj::Own<kj::AsyncIoStream> stream) { listener_->accept(kj::mv(stream)); }
  void dies_silently() { silent_ = true; }
  // At a fault point, in the midst of its code: nothing leaves it any more, and it is over.
  void crash();

 private:
  World& world_;
  std::uint64_t number_;
  std::string host_;
  SimProcess process_;
  DiskStore store_;
  kj::Own<gcs::HeadServer> server_;
  kj::Own<capnp::TwoPartyServer> listener_;
  State state_ = State::loading;
  bool silent_ = false;
};

}  // namespace troupe::sim
