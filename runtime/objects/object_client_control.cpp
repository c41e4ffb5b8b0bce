// The control thread's half of ObjectClient: attaching, telling the store, asking it.
#include "core/control/kj_error.h"
#include "runtime/objects/object_client.h"
#include "runtime/objects/object_session.h"
#include "runtime/objects/wire_objects.h"

namespace troupe {
namespace {

constexpr unsigned kMostOps = 4096;  // in one message
constexpr auto kAskAgain = 5 * kj::SECONDS;

StoreCore::Blank read_blank(wire::Blank::Reader from) {
  return {from.getSlot(), from.getOffset(), from.getSize(), from.getTouched()};
}

}  // namespace

// What the store tells this process.
class ObjectClient::Told final : public wire::ObjectClient::Server {
 public:
  Told(ObjectClient& client, std::weak_ptr<ObjectSession> session)
      : client_(client), session_(std::move(session)) {}
  kj::Promise<void> lost(LostContext context) override {
    auto session = session_.lock();
    if (!session) return kj::READY_NOW;
    Error why = read_failure(context.getParams().getFailure());
    for (auto id : context.getParams().getIds()) client_.lost(*session, read_id(id), why);
    return kj::READY_NOW;
  }
  kj::Promise<void> gone(GoneContext context) override {
    std::vector<ObjectId> ids;
    for (auto id : context.getParams().getIds()) ids.push_back(read_id(id));
    if (auto session = session_.lock()) client_.gone(*session, ids);
    return kj::READY_NOW;
  }
  kj::Promise<void> giveBack(GiveBackContext) override {
    if (auto session = session_.lock()) client_.give_back(*session, true);
    return kj::READY_NOW;
  }

 private:
  ObjectClient& client_;
  std::weak_ptr<ObjectSession> session_;
};

void ObjectClient::configure(Outside outside) {
  outside_ = std::move(outside);
  attaching_ = false;
  wanted_ = false;
  std::lock_guard lock(mutex_);
  loop_ = outside_.loop;
}

void ObjectClient::end() {
  std::shared_ptr<ObjectSession> session;
  {
    std::lock_guard lock(mutex_);
    loop_ = nullptr;
    session = session_;
  }
  if (session) flush(*session);
  if (session) ended(session);
  attach_failed(Error(ErrorKind::unavailable, "this program leaves the cluster"));
  outside_ = {};
}

// ---- attaching ----

void ObjectClient::when_attached(std::function<void(Result<std::shared_ptr<ObjectSession>>)> then) {
  if (auto session = this->session()) return then(session);
  waiting_.push_back(std::move(then));
  begin_attach();
}

void ObjectClient::begin_attach() {
  if (outside_.loop == nullptr || session()) return;
  wanted_ = true;
  if (std::exchange(attaching_, true)) return;
  auto made = std::make_shared<ObjectSession>();
  auto& loop = *outside_.loop;
  auto connected = outside_.find_store().then([this, &loop](std::string path) {
    Address address;
    address.path = path;
    return connect_authenticated(loop, address, *outside_.token);
  });
  auto greeted = connected.then([](kj::Own<SocketStream> stream) {
    auto byte = kj::heap<char>();
    auto read = stream->read(byte.get(), 1, 1);
    return read.then(
        [stream = kj::mv(stream), byte = kj::mv(byte)](size_t) mutable { return kj::mv(stream); });
  });
  auto asked = greeted.then([this, made](kj::Own<SocketStream> stream) {
    auto fds = stream->take_fds();
    if (fds.size() != 2)
      kj::throwFatalException(kj_exception(Error(ErrorKind::mismatch, "the object store sent no memory")));
    auto table = ObjectTable::map({std::move(fds[0]), std::move(fds[1])});
    if (!table) kj::throwFatalException(kj_exception(table.error()));
    made->table = std::move(*table);
    made->copy.emplace(made->table->capacity());
    auto connection = kj::heap<RpcConnection>(kj::mv(stream));
    auto store = connection->bootstrap().castAs<wire::ObjectStore>();
    auto request = store.attachRequest();
    request.setClient(kj::heap<Told>(*this, made));
    made->store = kj::mv(store);
    made->connection = kj::mv(connection);
    return request.send();
  });
  auto done = asked.then([this, made](capnp::Response<wire::ObjectStore::AttachResults> answer) {
    made->node = {answer.getNode()};
    made->cluster = answer.getCluster();
    made->process = answer.getProcess();
    made->pins.emplace(*made->table, answer.getPins());
    attached(made);
  });
  loop.spawn("attaching to the object store", done.catch_([this, made](kj::Exception&& failure) {
    made->store = nullptr;
    made->connection = nullptr;
    Error why = error_of(failure);
    why.message = "the node's object store cannot be used: " + why.message;
    attach_failed(why);
  }));
}

void ObjectClient::attached(std::shared_ptr<ObjectSession> session) {
  attaching_ = false;
  auto& loop = *outside_.loop;
  loop.spawn("watching the object store",
             session->connection->on_disconnect().then([this, weak = std::weak_ptr<ObjectSession>(session)] {
               if (auto self = weak.lock()) ended(self);
             }));
  {
    std::lock_guard lock(mutex_);
    session_ = session;
    trouble_ = nullptr;
  }
  node_ = session->node.value;
  changed_.notify_all();
  for (auto& then : std::exchange(waiting_, {})) then(session);
}

void ObjectClient::attach_failed(const Error& why) {
  attaching_ = false;
  // What only would like to have a store asks again after a while.
  if (outside_.loop != nullptr)
    outside_.loop->spawn("object store",
                         outside_.loop->timer().afterDelay(kAskAgain).then([this] { wanted_ = false; }));
  {
    std::lock_guard lock(mutex_);
    trouble_ = std::make_shared<const Error>(why);
  }
  changed_.notify_all();
  for (auto& then : std::exchange(waiting_, {})) then(why);
}

void ObjectClient::ended(const std::shared_ptr<ObjectSession>& session) {
  if (session->dead.exchange(true)) return;
  auto why = std::make_shared<const Error>(
      ErrorKind::object_lost, "the object store of node " + to_string(session->node) + " has ended");
  std::vector<Ref<ObjectHandle>> all;
  {
    std::lock_guard lock(mutex_);
    if (session_ == session) {
      session_ = nullptr;
      node_ = 0;
    }
    wanted_ = false;
    for (auto at = objects_.begin(); at != objects_.end();) {
      bool theirs = at->second->session_ == session;
      if (theirs && at->second->try_retain()) all.push_back(Ref<ObjectHandle>::adopt(at->second));
      at = theirs ? objects_.erase(at) : std::next(at);
    }
  }
  for (auto& object : all) {
    std::lock_guard lock(object->mutex_);
    object->lost_ = why;
  }
  std::unordered_map<ObjectId, std::shared_ptr<const void>> kept;
  {
    std::lock_guard lock(session->mutex);
    kept.swap(session->kept);
  }
  // A turn later: this may run on behalf of that connection.
  auto drop =
      kj::evalLast([store = kj::mv(session->store), connection = kj::mv(session->connection)]() mutable {
        store = nullptr;
        connection = nullptr;
      });
  session->store = nullptr;
  session->connection = nullptr;
  if (outside_.loop != nullptr) outside_.loop->spawn("leaving the object store", kj::mv(drop));
}

// ---- telling ----

void ObjectClient::flush(ObjectSession& session) {
  std::vector<Op> ops;
  {
    std::lock_guard lock(session.mutex);
    session.posted = false;
    ops.swap(session.ops);
  }
  if (session.dead) return;
  KJ_IF_MAYBE (store, session.store) {
    for (std::size_t begin = 0; begin < ops.size(); begin += kMostOps) {
      auto count = static_cast<unsigned>(std::min<std::size_t>(kMostOps, ops.size() - begin));
      auto call = store->updateRequest();
      auto list = call.initOps(count);
      for (unsigned i = 0; i < count; ++i) {
        const Op& op = ops[begin + i];
        auto to = list[i];
        if (op.id) write_id(to.initId(), op.id);
        switch (op.what) {
          case Op::created:
          case Op::watched: {
            auto created = to.initCreated();
            created.setSlot(op.slot);
            created.setSize(op.size);
            created.setWatched(op.what == Op::watched);
            break;
          }
          case Op::drop:
            to.setDrop();
            break;
          case Op::sent:
            write_transit(to.initSent(), op.transit);
            break;
          case Op::claim:
            write_transit(to.initClaim(), op.transit);
            break;
          case Op::expire:
            to.setExpire(op.size);
            break;
          case Op::discard:
            to.setDiscard(op.slot);
            break;
        }
      }
      // When it is lost, so is the session.
      if (outside_.loop != nullptr)
        outside_.loop->spawn("telling the object store",
                             call.send().ignoreResult().catch_([](kj::Exception&&) {}));
    }
  }
}

void ObjectClient::lost(ObjectSession& session, const ObjectId& id, const Error& why) {
  Ref<ObjectHandle> object;
  {
    std::lock_guard lock(mutex_);
    auto at = objects_.find(id);
    if (at == objects_.end() || at->second->session_.get() != &session || !at->second->try_retain()) return;
    object = Ref<ObjectHandle>::adopt(at->second);
    objects_.erase(at);  // one that comes anew is another
  }
  std::lock_guard lock(object->mutex_);
  object->lost_ = std::make_shared<const Error>(why);
}

void ObjectClient::gone(ObjectSession& session, const std::vector<ObjectId>& ids) {
  std::vector<std::shared_ptr<const void>> over;  // dropped without the lock
  std::lock_guard lock(session.mutex);
  for (const ObjectId& id : ids) {
    auto at = session.kept.find(id);
    if (at == session.kept.end()) continue;
    over.push_back(std::move(at->second));
    session.kept.erase(at);
  }
}

void ObjectClient::give_back(ObjectSession& session, bool wanted) {
  std::vector<StoreCore::Blank> all;
  {
    std::lock_guard lock(session.mutex);
    session.wanted |= wanted;
    for (auto& [size, blanks] : session.blanks) all.insert(all.end(), blanks.begin(), blanks.end());
    session.blanks.clear();
    for (const auto& blank : all) session.ops.push_back({Op::discard, {}, {}, blank.slot});
  }
  flush(session);
}

kj::Promise<void> ObjectClient::watch_idle(std::weak_ptr<ObjectSession> weak) {
  return outside_.loop->timer().afterDelay(kIdle).then([this, weak]() -> kj::Promise<void> {
    auto session = weak.lock();
    if (!session || session->dead) return kj::READY_NOW;
    {
      std::lock_guard lock(session->mutex);
      if (std::exchange(session->used, false)) return watch_idle(weak);
      session->watched = false;
    }
    give_back(*session);
    return kj::READY_NOW;
  });
}

void ObjectClient::refill(const std::shared_ptr<ObjectSession>& session, std::uint64_t size,
                          std::uint32_t count) {
  post([this, session, size, count] {
    auto done = [this, session, size](std::vector<StoreCore::Blank> got) {
      std::lock_guard lock(session->mutex);
      session->refilling.erase(size);
      if (got.empty()) return;
      session->wanted = false;
      if (!std::exchange(session->watched, true))
        outside_.loop->spawn("idle object memory", watch_idle(session));
      auto& blanks = session->blanks[size];
      // The first given is the warmest: it is taken first.
      blanks.insert(blanks.begin(), got.rbegin(), got.rend());
    };
    KJ_IF_MAYBE (store, session->store) {
      flush(*session);
      auto call = store->leaseRequest();
      call.setSize(size);
      call.setCount(count);
      outside_.loop->spawn("object memory in reserve",
                           call.send()
                               .then([done](capnp::Response<wire::ObjectStore::LeaseResults> answer) {
                                 std::vector<StoreCore::Blank> got;
                                 for (auto blank : answer.getBlanks()) got.push_back(read_blank(blank));
                                 done(std::move(got));
                               })
                               .catch_([done](kj::Exception&&) { done({}); }));
      return;
    }
    done({});
  });
}

// ---- asking ----

void ObjectClient::ask_for_space(std::shared_ptr<ObjectSession> session, std::uint64_t ticket,
                                 std::uint64_t size, std::int64_t patience_ms,
                                 Answer<std::shared_ptr<Space>> answer) {
  Error error(ErrorKind::unavailable, "the node's object store has ended");
  KJ_IF_MAYBE (store, session->store) {
    if (session->table->writable(&error) == nullptr) return answer(error);
    flush(*session);
    // So that it fits the reserve when it comes back.
    if (size <= kLargestReserved && size <= session->table->capacity() / 16) size = reserve_size(size);
    auto call = store->createRequest();
    call.setTicket(ticket);
    call.setSize(size);
    call.setPatienceMs(static_cast<std::uint64_t>(std::max<std::int64_t>(patience_ms, 0)));
    outside_.loop->spawn("asking for object memory",
                         call.send()
                             .then([session, answer](capnp::Response<wire::ObjectStore::CreateResults> got) {
                               auto space = std::make_shared<Space>();
                               space->session_ = session;
                               space->blank_ = read_blank(got.getBlank());
                               answer(std::move(space));
                             })
                             .catch_([answer](kj::Exception&& failure) { answer(error_of(failure)); }));
    return;
  }
  answer(error);
}

void ObjectClient::ask_for_bytes(std::uint64_t ticket, Ref<ObjectHandle> object, std::int64_t patience_ms,
                                 Answer<ObjectBytes> answer) {
  if (auto bytes = pin(*object)) return answer(*bytes);
  std::shared_ptr<const Error> lost;
  {
    std::lock_guard lock(object->mutex_);
    lost = object->lost_;
  }
  if (lost) return answer(*lost);
  auto session = object->session_;
  KJ_IF_MAYBE (store, session->store) {
    flush(*session);
    auto call = store->getRequest();
    call.setTicket(ticket);
    write_id(call.initId(), object->id());
    call.setPatienceMs(static_cast<std::uint64_t>(std::max<std::int64_t>(patience_ms, 0)));
    outside_.loop->spawn(
        "asking for an object",
        call.send()
            .then([this, ticket, patience_ms, session, object,
                   answer](capnp::Response<wire::ObjectStore::GetResults> got) {
              Error error;
              const std::byte* base = session->table->readable(&error);
              std::optional<ObjectBytes> bytes;
              // The store has set this process's pin; a reader that ended meanwhile may have
              // taken it away.
              {
                std::lock_guard lock(object->mutex_);
                std::uint32_t slot = got.getSlot();
                if (base != nullptr && !session->dead &&
                    (object->pins_ > 0 ? object->slot_ == slot
                                       : session->pins->pin(slot, object->id()).has_value())) {
                  object->slot_ = slot;
                  object->bytes_ = base + got.getOffset();
                  bytes = pinned(*object);
                }
              }
              if (bytes) return answer(*bytes);
              if (base == nullptr) return answer(error);
              ask_for_bytes(ticket, object, patience_ms, answer);
            })
            .catch_([answer](kj::Exception&& failure) { answer(error_of(failure)); }));
    return;
  }
  answer(Error(ErrorKind::object_lost, "the node's object store has ended"));
}

void ObjectClient::give_up(std::uint64_t ticket) {
  post([this, ticket] {
    auto session = this->session();
    if (!session) return;
    KJ_IF_MAYBE (store, session->store) {
      auto call = store->cancelRequest();
      call.setTicket(ticket);
      outside_.loop->spawn("giving up", call.send().ignoreResult().catch_([](kj::Exception&&) {}));
    }
  });
}

}  // namespace troupe
