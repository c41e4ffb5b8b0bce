// The object store of a node, as its agent runs it: shared memory, decisions (store_core.h), disk, the
// processes that are attached, the agents of other nodes.
//
// Processes of the machine attach over a Unix socket (wire::ObjectStore, core/protocol/objects.capnp); a
// connection's end is the process's death. Agents of other nodes and the `troupe` command use
// wire::ObjectPeer over TCP. Both ask for the cluster's token first.
//
// Owner: NodeAgent. Thread: the control thread; files are written and read on a thread of its own, memory is
// populated ahead on another, of low priority. Lifetime: after the loop, before it is destroyed; dropping it
// ends what processes have of the store: their objects are lost. Nothing of it survives the agent but files,
// which the next agent with that folder removes.
#pragma once

#include <memory>
#include <string>

#include "core/auth/token.h"
#include "core/control/loop.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/objects/object_puller.h"

namespace troupe {

struct ObjectServiceOptions {
  explicit ObjectServiceOptions(Token t) : token(std::move(t)) {}
  Token token;
  std::uint64_t memory = 0;  // bytes of the arena
  std::uint64_t disk = 0;    // bytes of spilled objects at most
  std::string folder;        // for spilled objects
  std::string socket;        // path of the Unix socket
  std::string host;          // where other nodes reach it; empty: nowhere
  std::string name;          // of the node, for people
  ObjectPuller::Factory puller;
  // Memory is made ready this long after the node joined, up to so many bytes.
  kj::Duration populate_after = 200 * kj::MILLISECONDS;
  std::uint64_t populate = std::uint64_t{1} << 30;
};

class ObjectState;

class ObjectService {
 public:
  ObjectService(ControlLoop& loop, ObjectServiceOptions options);
  ~ObjectService() noexcept(false);
  ObjectService(const ObjectService&) = delete;

  Result<void> start();  // listens
  const std::string& path() const;
  std::uint16_t port() const;

  // The node's number; another one than before ends all objects.
  void named(NodeId node, const std::string& name);
  void joined(wire::Membership::Client membership);
  void head_lost();

  ObjectHost& host();  // for the puller, and for tests

 private:
  std::shared_ptr<ObjectState> state_;
};

}  // namespace troupe
