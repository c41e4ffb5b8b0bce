// The seam between a node's object store and what moves objects between nodes (runtime/objects/transfer).
//
// The store calls ObjectPuller when a process wants an object that has no copy here; the puller gets it
// through ObjectHost, which the store is. Both are used on the control thread only, and neither calls the
// other back from inside a call. Filling and serving bytes is done by threads of the puller's own.
#pragma once

#include <kj/async.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "runtime/objects/object_id.h"

namespace troupe {

// Where the store of a node listens for other nodes.
struct StoreNode {
  NodeId node;
  std::string host, host_id, path;  // path: of the Unix socket for processes with the same host id
  std::uint16_t port = 0;           // 0: it takes nobody from other nodes
};

// Where an object can be fetched: a node that has all of it, or receives it itself.
struct ObjectSource {
  NodeId node;
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t size = 0;
};
// Who asks for a source, and where it will pass the object on. `failed`: the source it had, if that was no
// use.
struct ObjectAsker {
  NodeId node;
  std::string host;
  std::uint16_t port = 0;
  NodeId failed;
};

class ObjectHost {
 public:
  // Memory of the arena. While a Place lives, its bytes stay where they are: of a reserve() until sealed() or
  // aborted(), of a pin_copy() until it is dropped (on the control thread).
  struct Place {
    std::byte* bytes = nullptr;
    std::uint64_t offset = 0, size = 0;  // in the arena's file
    int arena = -1;                      // the arena's file, for sendfile and the like
    std::shared_ptr<void> pin;
  };

  virtual NodeId node() const = 0;
  // Room for a copy of a remote object that pull() asked for; waits for it. Rejected: object_store_full, or
  // object_lost when nobody wants it any more.
  virtual kj::Promise<Place> reserve(const ObjectId& id, std::uint64_t size) = 0;
  virtual void sealed(const ObjectId& id) = 0;                     // all of it is there: readers go on
  virtual void aborted(const ObjectId& id, const Error& why) = 0;  // readers fail with `why`
  // The bytes of an object of this node, or of a copy, whole or coming; from disk if need be. Null promise
  // result: there is none.
  virtual kj::Promise<std::optional<Place>> pin_copy(const ObjectId& id) = 0;
  // Size of an object whose home is here, if it lives.
  virtual std::optional<std::uint64_t> size_of(const ObjectId& id) const = 0;
  // Asks the object's home, or tells it that this node has all of it, or has given up. Rejected: object_lost
  // when the home does not know it.
  virtual kj::Promise<ObjectSource> ask_source(const ObjectId& id, const ObjectAsker& self) = 0;
  virtual void tell_fetched(const ObjectId& id, bool whole) = 0;
  // Asks the head where that node's store listens; null: it is lost for good. Rejected while no head answers.
  virtual kj::Promise<std::optional<StoreNode>> find_node(NodeId node) = 0;

 protected:
  ~ObjectHost() = default;
};

class ObjectPuller {
 public:
  virtual ~ObjectPuller() noexcept(false) = default;
  // A process waits for it and no copy is here: ends in ObjectHost::sealed or aborted, in any case.
  virtual void pull(const ObjectId& id) = 0;
  // Nobody waits any more: end it soon with aborted (or sealed).
  virtual void stop(const ObjectId& id) = 0;
  virtual void node_lost(NodeId node) = 0;
  // As the home of the object, for another node.
  virtual kj::Promise<ObjectSource> source(const ObjectId& id, const ObjectAsker& asker) = 0;
  virtual void fetched(const ObjectId& id, NodeId puller, bool whole) = 0;

  using Factory = std::function<std::unique_ptr<ObjectPuller>(ObjectHost&)>;
};

}  // namespace troupe
