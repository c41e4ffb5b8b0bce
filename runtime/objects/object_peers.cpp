#include "runtime/objects/object_peers.h"

#include "core/base/fault_point.h"
#include "core/control/kj_error.h"
#include "runtime/objects/object_state.h"
#include "runtime/objects/wire_objects.h"

namespace troupe {
namespace {

FaultPoint words_lost("objects.words.lose_request");

}  // namespace

ObjectPeers::~ObjectPeers() noexcept(false) {
  alive_ = nullptr;
  forget();
}

void ObjectPeers::forget() {
  for (auto& [node, way] : ways_) {
    way.peer = nullptr;
    // A turn later: this may run on behalf of that connection.
    if (way.connection.get() != nullptr)
      loop_.spawn("leaving a node",
                  kj::evalLast([old = kj::mv(way.connection)]() mutable { old = nullptr; }));
  }
  ways_.clear();
}

void ObjectPeers::borrow(const ObjectId& id, const Transit& transit) {
  say(id.node, {Word::borrow, id, transit});
}
void ObjectPeers::give_back(const ObjectId& id) { say(id.node, {Word::give, id, {}}); }
void ObjectPeers::claimed(const Transit& transit) { say(transit.node, {Word::claimed, {}, transit}); }

void ObjectPeers::say(NodeId to, const Word& word) {
  Way& way = ways_[to];
  way.words.add(word);
  if (way.peer == nullptr) {
    if (!way.connecting) connect(to);
    return;
  }
  if (std::exchange(way.posted, true)) return;
  loop_.post([this, to, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) flush(to);
  });
}

kj::Maybe<wire::ObjectPeer::Client> ObjectPeers::reach(NodeId home) {
  Way& way = ways_[home];
  if (way.peer == nullptr && !way.connecting) connect(home);
  return way.peer;
}

void ObjectPeers::connect(NodeId to) {
  ways_[to].connecting = true;
  std::weak_ptr<int> alive = alive_;
  auto attempt = state_.find_node(to).then(
      [this, to, alive](std::optional<StoreNode> where) -> kj::Promise<kj::Own<RpcConnection>> {
        if (alive.expired()) return kj_exception(Error(ErrorKind::cancelled, "the store ends"));
        if (!where) {
          gone(to);
          return kj_exception(Error(ErrorKind::not_found, "the node is lost"));
        }
        if (where->port == 0)
          return kj_exception(
              Error(ErrorKind::unavailable, "its object store takes nobody from other nodes"));
        Address address;
        address.host = where->host;
        address.port = where->port;
        return rpc_connect(loop_, address, state_.options().token);
      });
  loop_.spawn("reaching the object store of another node",
              attempt
                  .then([this, to, alive](kj::Own<RpcConnection> connection) {
                    if (!alive.expired()) connected(to, kj::mv(connection));
                  })
                  .catch_([this, to, alive](kj::Exception&&) {
                    if (!alive.expired()) again(to);
                  }));
}

void ObjectPeers::again(NodeId to) {
  loop_.spawn("reaching the object store of another node again",
              loop_.timer().afterDelay(kRetry).then([this, to, alive = std::weak_ptr<int>(alive_)] {
                if (alive.expired() || ways_.count(to) == 0) return;
                Way& way = ways_.at(to);
                if (way.peer == nullptr) connect(to);
              }));
}

void ObjectPeers::connected(NodeId to, kj::Own<RpcConnection> connection) {
  auto at = ways_.find(to);
  if (at == ways_.end()) return;
  Way& way = at->second;
  way.connecting = false;
  way.number = ++number_;
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("watching another node's object store",
              connection->on_disconnect().then([this, to, alive, number = way.number] {
                if (alive.expired() || ways_.count(to) == 0 || ways_.at(to).number != number) return;
                broke(to);
              }));
  way.peer = connection->bootstrap().castAs<wire::ObjectPeer>();
  way.connection = kj::mv(connection);
  KJ_IF_MAYBE (peer, way.peer) {
    auto hello = peer->helloRequest();
    hello.setNode(state_.node().value);
    loop_.spawn("greeting another node's object store",
                hello.send().ignoreResult().catch_([](kj::Exception&&) {}));
  }
  flush(to);
}

void ObjectPeers::broke(NodeId to) {
  Way& way = ways_.at(to);
  way.peer = nullptr;
  ++way.number;
  loop_.spawn("leaving a node", kj::evalLast([old = kj::mv(way.connection)]() mutable { old = nullptr; }));
  way.connection = nullptr;
  way.words.say_again(state_.core().borrowed_from(to));
  if (way.words.empty()) {
    ways_.erase(to);
    return;
  }
  connect(to);
}

void ObjectPeers::gone(NodeId node) {
  if (auto at = ways_.find(node); at != ways_.end()) {
    at->second.peer = nullptr;
    loop_.spawn("leaving a node",
                kj::evalLast([old = kj::mv(at->second.connection)]() mutable { old = nullptr; }));
    ways_.erase(at);
  }
  callers_.erase(node);
  state_.lost_node(node);
}

void ObjectPeers::flush(NodeId to) {
  auto at = ways_.find(to);
  if (at == ways_.end()) return;
  Way& way = at->second;
  way.posted = false;
  KJ_IF_MAYBE (peer, way.peer) {
    if (!way.words.waiting()) return;
    if (words_lost.fires()) {  // and the connection with them
      while (way.words.next()) {
      }
      return broke(to);
    }
    // The connection keeps their order.
    while (auto batch = way.words.next()) send(to, *peer, std::move(*batch));
  }
}

void ObjectPeers::send(NodeId to, wire::ObjectPeer::Client& peer, PeerWords::Batch batch) {
  std::weak_ptr<int> alive = alive_;
  auto acknowledged = [this, alive, to, number = batch.number] {
    if (alive.expired()) return;
    if (auto at = ways_.find(to); at != ways_.end()) at->second.words.acknowledged(number);
  };
  // Of a connection that has ended, broke() sees to it.
  auto refused = [acknowledged](kj::Exception&& failure) {
    if (failure.getType() != kj::Exception::Type::DISCONNECTED) acknowledged();
  };
  auto count = static_cast<unsigned>(batch.words.size());
  if (batch.words[0].what == Word::give) {
    auto call = peer.giveRequest();
    auto ids = call.initIds(count);
    for (unsigned i = 0; i < count; ++i) write_id(ids[i], batch.words[i].id);
    loop_.spawn("giving objects back",
                call.send().ignoreResult().then(kj::cp(acknowledged), kj::cp(refused)));
  } else if (batch.words[0].what == Word::claimed) {
    auto call = peer.claimedRequest();
    auto transits = call.initTransits(count);
    for (unsigned i = 0; i < count; ++i) write_transit(transits[i], batch.words[i].transit);
    loop_.spawn("telling of references",
                call.send().ignoreResult().then(kj::cp(acknowledged), kj::cp(refused)));
  } else {
    auto call = peer.borrowRequest();
    auto refs = call.initRefs(count);
    for (unsigned i = 0; i < count; ++i) {
      write_id(refs[i].initId(), batch.words[i].id);
      write_transit(refs[i].initTransit(), batch.words[i].transit);
    }
    auto answered = [this, alive, acknowledged, words = std::move(batch.words)](
                        capnp::Response<wire::ObjectPeer::BorrowResults> answer) {
      acknowledged();
      if (alive.expired()) return;
      std::set<std::size_t> unknown;
      for (auto index : answer.getUnknown()) unknown.insert(index);
      state_.decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
        for (std::size_t i = 0; i < words.size(); ++i)
          core.borrowed(words[i].id, unknown.count(i) == 0, now, out);
      });
    };
    loop_.spawn("borrowing objects", call.send().then(kj::mv(answered), kj::cp(refused)));
  }
}

// ---- those who call ----

void ObjectPeers::came(NodeId node) { ++callers_[node]; }

void ObjectPeers::went(NodeId node) {
  auto at = callers_.find(node);
  if (at == callers_.end() || --at->second > 0) return;
  ask_about(node);
}

void ObjectPeers::ask_about(NodeId node) {
  std::weak_ptr<int> alive = alive_;
  auto later = [this, node, alive] {
    return loop_.timer().afterDelay(kRetry).then([this, node, alive] {
      auto at = alive.expired() ? callers_.end() : callers_.find(node);
      if (!alive.expired() && at != callers_.end() && at->second <= 0) ask_about(node);
    });
  };
  loop_.spawn("asking about a node that borrowed objects",
              state_.find_node(node)
                  .then([this, node, alive, later](std::optional<StoreNode> where) -> kj::Promise<void> {
                    if (alive.expired()) return kj::READY_NOW;
                    if (where) return later();
                    gone(node);
                    return kj::READY_NOW;
                  })
                  .catch_([later](kj::Exception&&) { return later(); }));
}

}  // namespace troupe
