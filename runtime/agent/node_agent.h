// The node agent: joins the head, starts and reaps the workers of this node, passes their sessions and output
// on.
//
// When its head is lost, the workers go on and the agent looks for the head again, wherever that may be by
// then. If the head knows it still, nothing was lost; if it was declared lost meanwhile, its workers are
// ended at once, since their actors may run elsewhere, and it joins as a new node. Without a head for longer
// than its patience it ends itself and its workers. A head that hangs is left when another has taken over.
//
// Owner: the node command. Thread: the control thread. Lifetime: after the loop, before it is destroyed;
// dropping it ends every process it started, without waiting. Errors reach join() and ended().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/auth/token.h"
#include "core/base/resources.h"
#include "core/config/head_watch.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/agent/memory_monitor.h"
#include "runtime/agent/starter.h"

namespace troupe {

class AgentState;
class ObjectService;

class NodeAgent {
 public:
  struct Options {
    Options(Token t) : token(std::move(t)) {}
    Token token;
    std::string name;                    // empty: the head chooses
    std::string tcp_host = "127.0.0.1";  // where workers take links from other hosts
    Resources resources;
    std::string state;           // a private folder for logs and sockets
    std::string launcher;        // program whose main begins with enter_worker_role(); empty: this one
    bool reaps_orphans = false;  // all other children of this process are its own to kill
    int lines_per_second = 200;  // of a worker's output, to its driver
    kj::Duration patience = 30 * kj::SECONDS;  // until a worker registers
    // Set by the first constructor unless given.
    std::string host_id;
    int pid = 0;
    Starter::Factory starter;
    MemoryProbe memory;
    // One attempt to reach the head again; none: the agent ends with its head.
    std::function<kj::Promise<kj::Own<RpcConnection>>()> reconnect;
    kj::Duration head_patience = 10 * kj::MINUTES;
    // Of the node's object store (runtime/objects), in bytes; no memory: it has none.
    std::uint64_t object_memory = 0, object_disk = 0;
  };
  static constexpr auto kHeartbeat = 150 * kj::MILLISECONDS;
  static constexpr auto kRetry = 100 * kj::MILLISECONDS;

  NodeAgent(ControlLoop& loop, Options options);  // of this machine and process, with workers of a zygote
  NodeAgent(Executor& loop, Options options);
  ~NodeAgent() noexcept(false);
  NodeAgent(const NodeAgent&) = delete;

  // Joins the head at the other end. Once.
  kj::Promise<void> join(kj::Own<RpcConnection> head);

  // Kills every process of the node, then ended() resolves. May be called again.
  void stop(const std::string& reason);

  // Resolves when the node was told to end and nothing of it is left; rejected, in the same state, when the
  // head was lost. To be called once.
  kj::Promise<void> ended() { return kj::mv(ended_); }

  std::uint64_t node() const;
  const std::string& name() const;

 private:
  kj::Promise<void> enter(kj::Own<RpcConnection> head);
  kj::Promise<void> entered(std::uint64_t node, std::string name, wire::Membership::Client membership);
  void leave_head();
  void move_to(kj::Own<RpcConnection> head);
  void head_lost(const Error& why, bool fenced);
  void look_for_head(const Error& why, kj::TimePoint until);
  void finish(kj::Maybe<kj::Exception> failure, const std::string& reason);
  kj::Promise<void> beat();
  Result<void> start_objects();

  Executor& loop_;
  ControlLoop* control_ = nullptr;  // the same, where there are sockets
  std::shared_ptr<AgentState> state_;
  std::unique_ptr<ObjectService> objects_;
  HeadWatch watch_;
  kj::Own<kj::PromiseFulfiller<void>> tell_ended_;
  kj::Promise<void> ended_;
  kj::Maybe<kj::Own<RpcConnection>> head_;
  kj::Maybe<wire::Membership::Client> membership_;
  kj::Maybe<wire::Head::Client> joining_;  // asked whether it lives until it has answered the join
  std::uint64_t connection_ = 0;           // number of the current one
  bool has_joined_ = false;                // once
  std::uint64_t search_ = 0;               // number of the newest attempt to find the head
  int beats_ = 0;                          // not yet answered
  bool finishing_ = false;
};

}  // namespace troupe
