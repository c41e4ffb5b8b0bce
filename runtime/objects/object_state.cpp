#include "runtime/objects/object_state.h"

#include <sys/socket.h>

#include <chrono>

#include "core/base/log.h"
#include "core/control/kj_error.h"
#include "runtime/objects/process_servant.h"
#include "runtime/objects/wire_objects.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {
namespace {

std::uint32_t cluster_tag(const Token& token) {
  auto bytes = token.bytes();
  return XXH32(bytes.data(), bytes.size(), 0x0b1ec7) | 1u;
}

std::int32_t pid_of_peer(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

constexpr std::byte kGreeting{'o'};
constexpr std::uint32_t kOwnPage = 0;

}  // namespace

ObjectState::ObjectState(ControlLoop& loop, ObjectServiceOptions options)
    : loop_(loop),
      options_(std::move(options)),
      name_(options_.name),
      disk_(loop, options_.folder),
      peers_(loop, *this) {}

ObjectState::~ObjectState() noexcept(false) {
  alive_ = nullptr;
  populate_ = nullptr;
  puller_ = nullptr;
}

Result<void> ObjectState::start() {
  auto table = ObjectTable::create(options_.memory);
  if (!table) return table.error();
  table_ = std::move(*table);
  Error error;
  if (table_->writable(&error) == nullptr) return error;
  if (auto made = disk_.start(); !made) return made.error();
  reset();
  std::weak_ptr<ObjectState> weak = weak_from_this();
  Address address, bound;
  address.path = options_.socket;
  auto socket = listen_on(address, bound);
  if (!socket) return socket.error();
  processes_ = std::make_unique<Acceptor>(loop_, std::move(*socket), options_.token,
                                          [weak](kj::Own<SocketStream> stream) {
                                            if (auto self = weak.lock()) self->accept(kj::mv(stream));
                                          });
  if (!options_.host.empty()) {
    Address tcp;
    tcp.host = options_.host;
    auto listening = listen_on(tcp, bound);
    if (!listening) return listening.error();
    port_ = bound.port;
    others_ = std::make_unique<Acceptor>(
        loop_, std::move(*listening), options_.token, [this, weak](kj::Own<SocketStream> stream) {
          if (weak.expired()) return;
          auto connection = kj::heap<RpcConnection>(kj::mv(stream), kj::heap<PeerServant>(weak), true);
          auto ended = connection->on_disconnect();
          loop_.spawn("serving another node",
                      ended.attach(kj::mv(connection)).catch_([](kj::Exception&&) {}));
        });
  }
  if (options_.puller) puller_ = options_.puller(*this);
  return {};
}

// Another node, or the first: nothing of before is left.
void ObjectState::reset() {
  NodeId node = core_ ? core_->node() : NodeId();
  StoreCore::Limits limits;
  limits.capacity = table_->capacity();
  limits.disk = options_.disk;
  limits.slots = kObjectSlots;
  core_ = std::make_unique<StoreCore>(limits, *table_);
  core_->named(node, cluster_tag(options_.token));
  free_pages_.clear();
  for (std::uint32_t page = kObjectProcesses; page-- > 1;) free_pages_.push_back(page);
  table_->open_page(kOwnPage);
  self_ = core_->attach(kOwnPage, 0);
}

void ObjectState::named(NodeId node, const std::string& name) {
  name_ = name;
  if (core_->node() == node) return;
  bool before = bool(core_->node());
  if (before) {
    log(Level::warning, "this is node " + to_string(node) + " now: the objects of node " +
                            to_string(core_->node()) + " are lost");
    // Its processes have ended or attach again.
    auto connections = std::move(connections_);
    connections_.clear();
    process_of_.clear();
    for (auto& [process, client] : clients_) table_->close_page(client.page);
    auto clients = std::move(clients_);
    clients_.clear();
    loop_.spawn("ending the object store's connections",
                kj::evalLast([a = kj::mv(connections), b = kj::mv(clients)]() mutable {
                  a.clear();
                  b.clear();
                }));
    puller_ = nullptr;  // before its memory may be another object's
    peers_.forget();
    coming_.clear();
    own_pins_.clear();
    own_gets_.clear();
    reset();
    if (options_.puller) puller_ = options_.puller(*this);
  }
  core_->named(node, core_->cluster());
  if (before || populate_) return;
  std::uint64_t bytes = std::min(options_.populate, table_->capacity() / 2);
  auto after = std::chrono::milliseconds(options_.populate_after / kj::MILLISECONDS);
  populate_ = std::make_unique<Populate>(table_->fds().arena.get(), bytes, after,
                                         [this, alive = std::weak_ptr<int>(alive_)](std::uint64_t up_to) {
                                           loop_.post([this, alive, up_to] {
                                             if (!alive.expired()) core_->populated(up_to);
                                           });
                                         });
}

void ObjectState::joined(wire::Membership::Client membership) { membership_ = kj::mv(membership); }

void ObjectState::lost_node(NodeId node) {
  if (puller_) puller_->node_lost(node);
  decide(
      [&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) { core.node_gone(node, now, out); });
}

StoreCore::Now ObjectState::now() const {
  return (loop_.timer().now() - kj::origin<kj::TimePoint>()) / kj::MILLISECONDS;
}

kj::Promise<void> ObjectState::tick() {
  std::weak_ptr<int> alive = alive_;
  return loop_.timer().afterDelay(kTick).then([this, alive]() -> kj::Promise<void> {
    if (alive.expired()) return kj::READY_NOW;
    decide([](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) { core.tick(now, out); });
    if (core_->restless()) return tick();
    ticking_ = false;
    return kj::READY_NOW;
  });
}

// ---- processes ----

void ObjectState::accept(kj::Own<SocketStream> stream) {
  std::uint64_t number = ++connection_;
  const int fds[] = {table_->fds().arena.get(), table_->fds().table.get()};
  std::int32_t pid = pid_of_peer(stream->descriptor());
  stream->write_with_fds({&kGreeting, 1}, fds);
  auto servant = kj::heap<ProcessServant>(weak_from_this(), number);
  auto connection = kj::heap<RpcConnection>(kj::mv(stream), kj::mv(servant), true);
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("watching a process of the object store",
              connection->on_disconnect().then([this, alive, number] {
                if (!alive.expired()) connection_ended(number);
              }));
  connections_[number] = {kj::mv(connection), pid};
}

StoreCore::Process ObjectState::attach(std::uint64_t connection, wire::ObjectClient::Client told,
                                       std::uint32_t& page) {
  auto at = connections_.find(connection);
  if (at == connections_.end() || free_pages_.empty() || !core_->node()) {
    Error why(ErrorKind::unavailable, "the node has not joined its cluster yet");
    if (free_pages_.empty())
      why = Error(ErrorKind::overloaded, std::to_string(kObjectProcesses - 1) +
                                             " processes use the node's object store, the most it takes");
    kj::throwFatalException(kj_exception(why));
  }
  page = free_pages_.back();
  free_pages_.pop_back();
  table_->open_page(page);
  auto process = core_->attach(page, at->second.pid);
  process_of_[connection] = process;
  Client& client = clients_[process];
  client.page = page;
  client.pid = at->second.pid;
  client.told = kj::mv(told);
  client.connection = kj::mv(at->second.connection);
  connections_.erase(at);
  return process;
}

ObjectState::Client* ObjectState::client(StoreCore::Process process) {
  auto at = clients_.find(process);
  return at == clients_.end() ? nullptr : &at->second;
}

void ObjectState::connection_ended(std::uint64_t connection) {
  if (auto at = connections_.find(connection); at != connections_.end()) {
    loop_.spawn("a process left",
                kj::evalLast([old = kj::mv(at->second.connection)]() mutable { old = nullptr; }));
    connections_.erase(at);
  }
  auto at = process_of_.find(connection);
  if (at == process_of_.end()) return;
  auto process = at->second;
  process_of_.erase(at);
  end_process(process);
}

void ObjectState::end_process(StoreCore::Process process) {
  auto at = clients_.find(process);
  if (at == clients_.end()) return;
  table_->close_page(at->second.page);
  free_pages_.push_back(at->second.page);
  loop_.spawn("a process left the object store", kj::evalLast([old = kj::mv(at->second)]() mutable {
                old.told = nullptr;
                old.creating.clear();
                old.getting.clear();
                old.connection = nullptr;
              }));
  clients_.erase(at);
  decide(
      [&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) { core.detach(process, now, out); });
}

// ---- what is to be done ----

void ObjectState::perform(StoreCore::Actions actions) {
  std::map<StoreCore::Process, std::vector<ObjectId>> gone;
  for (auto& action : actions) {
    if (auto* one = std::get_if<StoreCore::Gone>(&action))
      gone[one->process].push_back(one->id);
    else
      perform_one(action);
  }
  for (auto& [process, ids] : gone) tell_gone(process, ids);
}

void ObjectState::tell_gone(StoreCore::Process process, const std::vector<ObjectId>& ids) {
  Client* to = client(process);
  if (to == nullptr) return;
  KJ_IF_MAYBE (told, to->told) {
    auto call = told->goneRequest();
    auto list = call.initIds(static_cast<unsigned>(ids.size()));
    for (unsigned i = 0; i < list.size(); ++i) write_id(list[i], ids[i]);
    loop_.spawn("telling of objects that are gone",
                call.send().ignoreResult().catch_([](kj::Exception&&) {}));
  }
}

void ObjectState::perform_one(StoreCore::Action& action) {
  auto reject = [](auto& table, StoreCore::Ticket ticket, const Error& why) {
    auto at = table.find(ticket);
    if (at == table.end()) return;
    at->second->reject(kj_exception(why));
    table.erase(at);
  };
  if (auto* made = std::get_if<StoreCore::Made>(&action)) {
    Client* to = client(made->process);
    auto at = to == nullptr ? decltype(to->creating.begin())() : to->creating.find(made->ticket);
    if (to == nullptr || at == to->creating.end()) return;
    at->second->fulfill(kj::mv(made->blank));
    to->creating.erase(at);
  } else if (auto* found = std::get_if<StoreCore::Found>(&action)) {
    if (found->process == self_) {
      ++own_pins_[found->slot];
      if (auto at = own_gets_.find(found->ticket); at != own_gets_.end()) {
        at->second->fulfill(kj::mv(*found));
        own_gets_.erase(at);
      }
      return;
    }
    Client* to = client(found->process);
    if (to == nullptr) return;
    auto at = to->getting.find(found->ticket);
    if (at == to->getting.end()) return;
    at->second->fulfill(kj::mv(*found));
    to->getting.erase(at);
  } else if (auto* failed = std::get_if<StoreCore::Failed>(&action)) {
    if (failed->process == self_) return reject(own_gets_, failed->ticket, failed->why);
    if (Client* to = client(failed->process)) {
      reject(to->creating, failed->ticket, failed->why);
      reject(to->getting, failed->ticket, failed->why);
    }
  } else if (auto* lost = std::get_if<StoreCore::Lost>(&action)) {
    if (Client* to = client(lost->process)) {
      KJ_IF_MAYBE (told, to->told) {
        auto call = told->lostRequest();
        write_id(call.initIds(1)[0], lost->id);
        write_failure(call.initFailure(), lost->why);
        loop_.spawn("telling of a lost object", call.send().ignoreResult().catch_([](kj::Exception&&) {}));
      }
    }
  } else if (auto* back = std::get_if<StoreCore::GiveBack>(&action)) {
    if (Client* to = client(back->process)) {
      KJ_IF_MAYBE (told, to->told)
        loop_.spawn("asking for blanks",
                    told->giveBackRequest().send().ignoreResult().catch_([](kj::Exception&&) {}));
    }
  } else if (auto* spill = std::get_if<StoreCore::Spill>(&action)) {
    disk_.write(spill->id, table_->writable(nullptr) + spill->offset, spill->size,
                [this, id = spill->id](Result<void> done) {
                  if (!done) log(Level::warning, "an object cannot be spilled: " + done.error().message);
                  decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
                    core.spilled(id, std::move(done), now, out);
                  });
                });
  } else if (auto* restore = std::get_if<StoreCore::Restore>(&action)) {
    disk_.read(restore->id, table_->writable(nullptr) + restore->offset, restore->size,
               [this, id = restore->id](Result<void> done) {
                 decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
                   core.restored(id, std::move(done), now, out);
                 });
               });
  } else if (auto* file = std::get_if<StoreCore::RemoveFile>(&action)) {
    disk_.remove(file->id);
  } else if (auto* borrow = std::get_if<StoreCore::Borrow>(&action)) {
    peers_.borrow(borrow->id, borrow->transit);
  } else if (auto* returned = std::get_if<StoreCore::Return>(&action)) {
    peers_.give_back(returned->id);
  } else if (auto* claimed = std::get_if<StoreCore::Claimed>(&action)) {
    peers_.claimed(claimed->transit);
  } else if (auto* pull = std::get_if<StoreCore::Pull>(&action)) {
    if (puller_) return puller_->pull(pull->id);
    loop_.post([this, alive = std::weak_ptr<int>(alive_), id = pull->id] {
      if (!alive.expired())
        aborted(id, Error(ErrorKind::unavailable, "object " + to_string(id) + " lies on node " +
                                                      to_string(id.node) +
                                                      ", and this node cannot fetch objects from others"));
    });
  } else if (auto* stop = std::get_if<StoreCore::StopPull>(&action)) {
    if (puller_) puller_->stop(stop->id);
  } else if (auto* reserved = std::get_if<StoreCore::Reserved>(&action)) {
    auto at = coming_.find(reserved->id);
    auto copy = place_at(reserved->blank.offset, reserved->blank.size);
    if (at == coming_.end()) return;
    at->second.place = copy;
    at->second.reserving->fulfill(kj::mv(copy));
  } else if (auto* refused = std::get_if<StoreCore::Refused>(&action)) {
    auto at = coming_.find(refused->id);
    if (at == coming_.end()) return;
    at->second.reserving->reject(kj_exception(refused->why));
    coming_.erase(at);
  }
}

// ---- the puller's host ----

ObjectState::Place ObjectState::place_at(std::uint64_t offset, std::uint64_t size) {
  Place place;
  place.bytes = table_->writable(nullptr) + offset;
  place.offset = offset;
  place.size = size;
  place.arena = table_->fds().arena.get();
  return place;
}

kj::Promise<ObjectHost::Place> ObjectState::reserve(const ObjectId& id, std::uint64_t size) {
  auto paf = kj::newPromiseAndFulfiller<Place>();
  coming_[id].reserving = kj::mv(paf.fulfiller);
  decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    core.reserve(id, size, now + kReserve, now, out);
  });
  return paf.promise.then([size](Place place) {
    place.size = size;
    return place;
  });
}

void ObjectState::sealed(const ObjectId& id) {
  coming_.erase(id);
  decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) { core.sealed(id, now, out); });
}

void ObjectState::aborted(const ObjectId& id, const Error& why) {
  coming_.erase(id);
  decide(
      [&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) { core.aborted(id, why, now, out); });
}

kj::Promise<std::optional<ObjectHost::Place>> ObjectState::pin_copy(const ObjectId& id) {
  if (auto at = coming_.find(id); at != coming_.end())
    return kj::Promise<std::optional<Place>>(at->second.place);
  if (!core_->has(id)) return kj::Promise<std::optional<Place>>(std::optional<Place>());
  if (id.node != node() && !core_->copy(id)) return kj::Promise<std::optional<Place>>(std::optional<Place>());
  auto paf = kj::newPromiseAndFulfiller<StoreCore::Found>();
  auto ticket = ++ticket_;
  own_gets_[ticket] = kj::mv(paf.fulfiller);
  decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    core.get(self_, ticket, id, now + kReserve, now, out);
  });
  std::weak_ptr<int> alive = alive_;
  return paf.promise.then([this, alive](StoreCore::Found found) -> std::optional<Place> {
    if (alive.expired()) return std::nullopt;
    Place place = place_at(found.offset, found.size);
    place.pin = std::shared_ptr<void>(nullptr, [this, alive, slot = found.slot](void*) {
      if (alive.expired() || own_pins_[slot] == 0 || --own_pins_[slot] > 0) return;
      own_pins_.erase(slot);
      table_->unpin(slot, kOwnPage);
    });
    return place;
  });
}

kj::Promise<ObjectSource> ObjectState::ask_source(const ObjectId& id, const ObjectAsker& self) {
  KJ_IF_MAYBE (home, peers_.reach(id.node)) {
    auto call = home->sourceRequest();
    write_id(call.initId(), id);
    call.setHost(self.host.c_str());
    call.setPort(self.port);
    call.setFailed(self.failed.value);
    return call.send().then([](capnp::Response<wire::ObjectPeer::SourceResults> answer) {
      return ObjectSource{{answer.getNode()}, answer.getHost().cStr(), answer.getPort(), answer.getSize()};
    });
  }
  return kj_exception(
      Error(ErrorKind::unavailable, "node " + to_string(id.node) + ", its home, is not connected"));
}

void ObjectState::tell_fetched(const ObjectId& id, bool whole) {
  KJ_IF_MAYBE (home, peers_.reach(id.node)) {
    auto call = home->fetchedRequest();
    write_id(call.initId(), id);
    call.setWhole(whole);
    loop_.spawn("telling an object's home", call.send().ignoreResult().catch_([](kj::Exception&&) {}));
  }
}

std::optional<std::uint64_t> ObjectState::size_of(const ObjectId& id) const { return core_->size_of(id); }

kj::Promise<std::optional<StoreNode>> ObjectState::find_node(NodeId node) {
  KJ_IF_MAYBE (membership, membership_) {
    return membership->nodesRequest().send().then(
        [node](capnp::Response<wire::Membership::NodesResults> answer) -> std::optional<StoreNode> {
          for (auto view : answer.getNodes()) {
            if (view.getNode() != node.value || view.getLost()) continue;
            return StoreNode{node, view.getAddress().cStr(), view.getHostId().cStr(),
                             view.getObjectsPath().cStr(), view.getObjectsPort()};
          }
          return std::nullopt;
        });
  }
  return kj_exception(Error(ErrorKind::unavailable, "the head is away"));
}

void ObjectState::fill(wire::ObjectMemory::Builder to) const {
  auto usage = core_->usage();
  to.setNode(core_->node().value);
  to.setName(name_.c_str());
  to.setCapacity(usage.capacity);
  to.setUsed(usage.used);
  to.setPinned(usage.pinned);
  to.setBlank(usage.blank);
  to.setTouched(usage.touched);
  to.setObjects(usage.objects);
  to.setProcesses(static_cast<std::uint32_t>(clients_.size()));
  to.setWaiting(static_cast<std::uint32_t>(usage.waiting));
  to.setSpilled(usage.spilled);
  to.setSpilledObjects(usage.spilled_objects);
  to.setDiskLimit(usage.disk);
  to.setSpills(usage.spills);
  to.setRestores(usage.restores);
}

}  // namespace troupe
