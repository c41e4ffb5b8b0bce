// A driver's way to the head: opens the job, comes back to it when the head was away, and moves to another
// head when the present one hangs. The control plane is given each new session.
//
// Owner: Process. Thread: the control thread. Lifetime: within the plane's. Without a head for longer than
// ControlPlane's patience requests fail; the search goes on. A head that does not know the job ends it.
#pragma once

#include <functional>
#include <memory>

#include "core/config/head_watch.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/process/control_plane.h"

namespace troupe {

class DriverSession {
 public:
  // How long a program waits, at its start, for a head that is being replaced or cannot reach its store.
  static constexpr auto kEntry = 10 * kj::SECONDS;
  static constexpr auto kRetry = 100 * kj::MILLISECONDS;
  static constexpr auto kBeat = 500 * kj::MILLISECONDS;

  struct Hooks {
    std::function<kj::Promise<kj::Own<RpcConnection>>()> connect;  // one attempt to reach a head
    std::function<void(wire::JobInfo::Builder)> describe;
    std::function<wire::JobClient::Client()> client;  // what the head tells news through: the plane's
    std::function<void(JobId, ProcessId)> opened;     // the first time and after each return
  };
  DriverSession(Executor& loop, ControlPlane& plane, Hooks hooks);
  DriverSession(const DriverSession&) = delete;

  // Resolves when the job is open. Once.
  kj::Promise<void> enter();

 private:
  struct Attempt;
  kj::Promise<void> try_to_enter(std::shared_ptr<Attempt> attempt);
  kj::Promise<void> open(kj::Own<RpcConnection> head);
  void leave();
  void look_for_head();
  void move_to(kj::Own<RpcConnection> head);
  void failed(const kj::Exception& failure, bool reached);
  kj::Promise<void> beat();

  Executor& loop_;
  ControlPlane& plane_;
  Hooks hooks_;
  HeadWatch watch_;
  kj::Own<RpcConnection> head_;
  // Of that connection, kept because one that has ended must not be asked for it again.
  kj::Maybe<wire::Head::Client> bootstrap_;
  std::uint64_t connection_ = 0;                          // number of the current one
  std::uint64_t search_ = 0;                              // number of the last search for a head
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for tasks on the loop
};

}  // namespace troupe
