// A head that only opens jobs, takes nodes in and says that it lives; or hangs, its connections open.
//
// Owner: a test. Thread: the simulation's.
#pragma once

#include <capnp/rpc-twoparty.h>

#include <memory>
#include <vector>

#include "core/control/kj_error.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe::sim {

class FakeHead final : public wire::Head::Server {
 public:
  explicit FakeHead(bool hangs) : hangs_(hangs) {}

  kj::Promise<void> openJob(OpenJobContext context) override {
    ++asked;
    if (hangs_) return kj::NEVER_DONE;
    context.getResults().setJob(1);
    context.getResults().setProcess(7);
    context.getResults().setSession(kj::heap<Session>());
    return kj::READY_NOW;
  }
  kj::Promise<void> join(JoinContext context) override {
    ++asked;
    if (hangs_) return kj::NEVER_DONE;
    context.getResults().setNode(1);
    context.getResults().setName("n1");
    context.getResults().setMembership(kj::heap<Membership>());
    return kj::READY_NOW;
  }
  kj::Promise<void> admin(AdminContext) override {
    if (hangs_) return kj::NEVER_DONE;
    return kj::READY_NOW;
  }

  int asked = 0;  // to open a job or to take a node in

 private:
  class Session final : public wire::Session::Server {};
  class Membership final : public wire::Membership::Server {
    kj::Promise<void> heartbeat(HeartbeatContext) override { return kj::READY_NOW; }
  };
  bool hangs_;
};

class FakeHeads {
 public:
  // The head that connections reach from now on. It lives until dies().
  FakeHead& serves(bool hangs = false) {
    auto served = kj::heap<FakeHead>(hangs);
    FakeHead& head = *served;
    servers_.push_back(kj::heap<capnp::TwoPartyServer>(kj::mv(served)));
    return head;
  }
  void dies() { servers_.back() = nullptr; }  // the last one
  kj::Promise<kj::Own<RpcConnection>> connect() {
    if (servers_.empty() || servers_.back().get() == nullptr) {
      return kj_exception(Error(ErrorKind::unavailable, "no head can be reached"));
    }
    auto pipe = kj::newTwoWayPipe();
    servers_.back()->accept(kj::mv(pipe.ends[1]));
    return kj::heap<RpcConnection>(kj::mv(pipe.ends[0]), nullptr, false);
  }
  void end() { servers_.clear(); }

 private:
  std::vector<kj::Own<capnp::TwoPartyServer>> servers_;
};

}  // namespace troupe::sim
