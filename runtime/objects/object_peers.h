// The way to the stores of other nodes: what this node borrows from the homes of objects, gives back, and
// tells of references that have arrived. Each home gets its words in order (PeerWords); a connection that
// broke is made again and told what may have been lost with it, until the head says that the node is lost.
//
// Owner: ObjectState. Thread: the control thread. Also serves those that borrow from here: a node whose
// connection has ended is asked about at the head, and its borrows end when it is lost.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/control/rpc.h"
#include "core/protocol/objects.capnp.h"
#include "runtime/objects/object_puller.h"
#include "runtime/objects/peer_words.h"
#include "runtime/objects/store_core.h"

namespace troupe {

class ObjectState;

class ObjectPeers {
 public:
  static constexpr auto kRetry = 300 * kj::MILLISECONDS;

  ObjectPeers(ControlLoop& loop, ObjectState& state) : loop_(loop), state_(state) {}
  ~ObjectPeers() noexcept(false);

  void borrow(const ObjectId& id, const Transit& transit);
  void give_back(const ObjectId& id);
  void claimed(const Transit& transit);

  // The home over the connection there is; without one it is made, for the next time.
  kj::Maybe<wire::ObjectPeer::Client> reach(NodeId home);

  // Of nodes that call us.
  void came(NodeId node);
  void went(NodeId node);  // its connection ended
  void forget();           // this node is another one now

 private:
  using Word = PeerWords::Word;
  struct Way {
    kj::Own<RpcConnection> connection;
    kj::Maybe<wire::ObjectPeer::Client> peer;
    bool connecting = false, posted = false;
    PeerWords words;
    std::uint64_t number = 0;  // of the connection
  };
  void say(NodeId to, const Word& word);
  void flush(NodeId to);
  void connect(NodeId to);
  void connected(NodeId to, kj::Own<RpcConnection> connection);
  void broke(NodeId to);
  void again(NodeId to);
  void gone(NodeId node);
  void send(NodeId to, wire::ObjectPeer::Client& peer, PeerWords::Batch batch);
  void ask_about(NodeId node);

  ControlLoop& loop_;
  ObjectState& state_;
  std::map<NodeId, Way> ways_;
  std::map<NodeId, int> callers_;  // connections of each
  std::uint64_t number_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace troupe
