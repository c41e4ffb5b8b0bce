// The working state of a node's object store, shared by the parts of ObjectService: the servants of attached
// processes (process_servant.h), the way to other nodes (object_peers.h), the host of the puller.
//
// Owner: ObjectService; servants and tasks look at it through weak pointers. Thread: the control thread.
#pragma once

#include <kj/async.h>

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/control/rpc.h"
#include "core/protocol/objects.capnp.h"
#include "runtime/objects/object_peers.h"
#include "runtime/objects/object_puller.h"
#include "runtime/objects/object_service.h"
#include "runtime/objects/object_table.h"
#include "runtime/objects/populate.h"
#include "runtime/objects/spill_disk.h"
#include "runtime/objects/store_core.h"

namespace troupe {

class ObjectState final : public ObjectHost, public std::enable_shared_from_this<ObjectState> {
 public:
  static constexpr auto kTick = 50 * kj::MILLISECONDS;
  // A copy of a remote object is made within this time, or the readers are told that it is not.
  static constexpr StoreCore::Now kReserve = 30'000;

  ObjectState(ControlLoop& loop, ObjectServiceOptions options);
  ~ObjectState() noexcept(false);

  Result<void> start();
  void named(NodeId node, const std::string& name);
  void joined(wire::Membership::Client membership);
  void head_lost() { membership_ = nullptr; }
  void lost_node(NodeId node);  // for good

  // ---- what happens ----
  template <class F>  // f(core, now, actions), then what follows from it
  void decide(F f) {
    StoreCore::Actions out;
    f(*core_, now(), out);
    perform(std::move(out));
    if (core_->restless() && !std::exchange(ticking_, true)) loop_.spawn("object store", tick());
  }
  StoreCore& core() { return *core_; }
  StoreCore::Now now() const;
  kj::Promise<void> pause(kj::Duration time) { return loop_.timer().afterDelay(time); }

  // An attached process.
  struct Client {
    std::uint32_t page = 0;
    std::int32_t pid = 0;
    kj::Maybe<wire::ObjectClient::Client> told;
    kj::Own<RpcConnection> connection;
    std::map<StoreCore::Ticket, kj::Own<kj::PromiseFulfiller<StoreCore::Blank>>> creating;
    std::map<StoreCore::Ticket, kj::Own<kj::PromiseFulfiller<StoreCore::Found>>> getting;
  };
  Client* client(StoreCore::Process process);
  // Numbers the process at the other end of that connection; rejected when there are too many.
  StoreCore::Process attach(std::uint64_t connection, wire::ObjectClient::Client told, std::uint32_t& page);

  void fill(wire::ObjectMemory::Builder to) const;
  const std::string& name() const { return name_; }
  const ObjectServiceOptions& options() const { return options_; }
  ObjectPeers& peers() { return peers_; }
  ObjectPuller* puller() { return puller_.get(); }
  const std::string& path() const { return options_.socket; }
  std::uint16_t port() const { return port_; }

  // ---- ObjectHost ----
  NodeId node() const override { return core_->node(); }
  kj::Promise<Place> reserve(const ObjectId& id, std::uint64_t size) override;
  void sealed(const ObjectId& id) override;
  void aborted(const ObjectId& id, const Error& why) override;
  kj::Promise<std::optional<Place>> pin_copy(const ObjectId& id) override;
  std::optional<std::uint64_t> size_of(const ObjectId& id) const override;
  kj::Promise<ObjectSource> ask_source(const ObjectId& id, const ObjectAsker& self) override;
  void tell_fetched(const ObjectId& id, bool whole) override;
  kj::Promise<std::optional<StoreNode>> find_node(NodeId node) override;

 private:
  struct Coming {  // a copy that is being made
    kj::Own<kj::PromiseFulfiller<Place>> reserving;
    std::optional<Place> place;
  };
  struct Waiting {  // a connection whose process has not said its first word
    kj::Own<RpcConnection> connection;
    std::int32_t pid = 0;
  };

  void accept(kj::Own<SocketStream> stream);
  void connection_ended(std::uint64_t connection);
  void end_process(StoreCore::Process process);
  void perform(StoreCore::Actions actions);
  void perform_one(StoreCore::Action& action);
  void tell_gone(StoreCore::Process process, const std::vector<ObjectId>& ids);
  kj::Promise<void> tick();
  void reset();
  Place place_at(std::uint64_t offset, std::uint64_t size);

  ControlLoop& loop_;
  ObjectServiceOptions options_;
  std::string name_;
  std::uint16_t port_ = 0;
  std::unique_ptr<ObjectTable> table_;
  std::unique_ptr<StoreCore> core_;
  SpillDisk disk_;
  ObjectPeers peers_;
  std::unique_ptr<ObjectPuller> puller_;
  std::unique_ptr<Populate> populate_;
  std::unique_ptr<Acceptor> processes_, others_;
  std::map<std::uint64_t, Waiting> connections_;
  std::uint64_t connection_ = 0;
  std::map<std::uint64_t, StoreCore::Process> process_of_;
  std::map<StoreCore::Process, Client> clients_;
  std::vector<std::uint32_t> free_pages_;
  std::unordered_map<ObjectId, Coming> coming_;
  kj::Maybe<wire::Membership::Client> membership_;
  // The agent itself, as a reader of its own store: page 0.
  StoreCore::Process self_ = 0;
  std::uint64_t ticket_ = 0;
  bool ticking_ = false;                                       // something waits for time to pass
  std::unordered_map<std::uint32_t, std::uint32_t> own_pins_;  // by slot
  std::map<StoreCore::Ticket, kj::Own<kj::PromiseFulfiller<StoreCore::Found>>> own_gets_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace troupe
