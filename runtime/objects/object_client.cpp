// Handles, blanks, pins: what any thread does. The control thread's half: object_client_control.cpp.
#include "runtime/objects/object_client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>

#include "runtime/objects/lending.h"
#include "runtime/objects/object_session.h"

namespace troupe {
namespace {

std::uint32_t reserve_count(std::uint64_t size) {
  if (size <= 64 << 10) return 32;
  return size <= 1 << 20 ? 24 : 4;
}

Error no_session(const std::shared_ptr<const Error>& trouble) {
  if (trouble) return *trouble;
  return Error(ErrorKind::unavailable, "this process is not attached to an object store");
}

Error lender_gone(const ObjectHandle& object) {
  return Error(ErrorKind::object_lost,
               "the memory of a message, " + to_string(object.id()) + ", is gone: its sender ended");
}

}  // namespace

// Four to each power of two, so that those in reserve fit most objects.
std::uint64_t ObjectClient::reserve_size(std::uint64_t size) {
  size = std::max<std::uint64_t>(size, Extents::kSmallest);
  std::uint64_t step = Extents::kSmallest;
  while (step * 8 < size) step *= 2;
  return Extents::rounded((size + step - 1) / step * step);
}

ObjectClient& ObjectClient::get() {
  static ObjectClient* only = new ObjectClient;  // references may outlive everything else
  return *only;
}

std::shared_ptr<ObjectSession> ObjectClient::session() const {
  std::lock_guard lock(mutex_);
  return session_;
}

bool ObjectClient::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (loop_ == nullptr) return false;
  loop_->post(std::move(work));
  return true;
}

void ObjectClient::want() {
  if (wanted_.exchange(true, std::memory_order_relaxed)) return;
  if (!post([this] { begin_attach(); })) wanted_ = false;
}

Result<void> ObjectClient::attach() {
  std::unique_lock lock(mutex_);
  if (session_) return {};
  if (loop_ == nullptr)
    return Error(ErrorKind::invalid_argument,
                 "no troupe::Runtime exists: make one at the start of main, and keep it");
  trouble_ = nullptr;
  loop_->post([this] { begin_attach(); });
  bool told = changed_.wait_for(lock, std::chrono::milliseconds(kAttachMs),
                                [this] { return session_ || trouble_ || loop_ == nullptr; });
  if (session_) return {};
  if (!told) return Error(ErrorKind::unavailable, "the node's object store did not answer in time");
  return no_session(trouble_);
}

std::size_t ObjectClient::held() const {
  std::lock_guard lock(mutex_);
  return objects_.size();
}

// ---- handles ----

bool ObjectHandle::try_retain() {
  std::uint32_t count = count_.load(std::memory_order_relaxed);
  while (count > 0 && !count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) {
  }
  return count > 0;
}

std::shared_ptr<const Error> ObjectHandle::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

void ObjectHandle::release() {
  if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) ObjectClient::get().retire(*this);
}

void ObjectClient::retire(ObjectHandle& object) {
  std::shared_ptr<ObjectSession> session = object.session_;
  if (object.holding_ != ObjectHandle::Holding::counted) {
    if (object.holding_ == ObjectHandle::Holding::unsealed)
      push(*session, {Op::discard, {}, {}, object.slot_});
    if (object.holding_ == ObjectHandle::Holding::borrowed) object.lender_->spent(object.slot_);
    delete &object;
    return;
  }
  {
    std::lock_guard lock(mutex_);
    auto at = objects_.find(object.id_);
    if (at != objects_.end() && at->second == &object) objects_.erase(at);
  }
  if (session) push(*session, {Op::drop, object.id_});
  delete &object;
}

void ObjectClient::push(ObjectSession& session, Op op) {
  if (session.dead.load(std::memory_order_relaxed)) return;
  {
    std::lock_guard lock(session.mutex);
    session.ops.push_back(op);
    if (std::exchange(session.posted, true)) return;
  }
  post([this, weak = session.weak_from_this()] {
    if (auto self = weak.lock()) {
      outside_.loop->spawn("telling the object store",
                           outside_.loop->timer().afterDelay(kFlushAfter).then([this, weak] {
                             if (auto session = weak.lock()) flush(*session);
                           }));
    }
  });
}

// ---- writing ----

ObjectClient::Space::~Space() {
  if (session_) get().push(*session_, {Op::discard, {}, {}, blank_.slot});
}

std::byte* ObjectClient::Space::bytes() const { return session_->table->writable(nullptr) + blank_.offset; }

void ObjectClient::Space::write(std::uint64_t at, std::span<const std::byte> from) {
  session_->copy->copy(session_->table->writable(nullptr), blank_.offset + at, from);
}

Ref<ObjectHandle> ObjectClient::Space::leave_unsealed(std::uint64_t size) {
  auto session = std::move(session_);
  ObjectId id{session->cluster, session->node,
              object_number(session->process, session->objects.fetch_add(1, std::memory_order_relaxed) + 1)};
  auto* made = new ObjectHandle(session, id, blank_.slot, size);
  made->holding_ = ObjectHandle::Holding::unsealed;
  made->blank_ = blank_;
  return Ref<ObjectHandle>::adopt(made);
}

Ref<ObjectHandle> ObjectClient::Space::seal(std::uint64_t size, std::shared_ptr<const void> keep) {
  auto made = leave_unsealed(size);
  get().seal(*made, std::move(keep));
  return made;
}

void ObjectClient::seal(ObjectHandle& object, std::shared_ptr<const void> keep) {
  ObjectSession& session = *object.session_;
  session.table->seal(object.slot_, object.id_, object.size_);
  object.holding_ = ObjectHandle::Holding::counted;
  object.claimed_ = true;
  {
    std::lock_guard lock(mutex_);
    objects_[object.id_] = &object;
  }
  Op op{keep ? Op::watched : Op::created, object.id_, {}, object.slot_, object.size_};
  if (keep) {
    // A session that is dead has let everything go, or will: it takes the mutex after it is marked.
    std::lock_guard lock(session.mutex);
    if (!session.dead) session.kept[object.id_] = std::move(keep);
  }
  push(session, op);
}

std::shared_ptr<const void> ObjectClient::kept(const ObjectId& id) const {
  auto session = this->session();
  if (!session || id.node != session->node || id.number >> kObjectCounterBits != session->process)
    return nullptr;
  std::lock_guard lock(session->mutex);
  auto at = session->kept.find(id);
  return at == session->kept.end() ? nullptr : at->second;
}

std::size_t ObjectClient::watched() const {
  auto session = this->session();
  if (!session) return 0;
  std::lock_guard lock(session->mutex);
  return session->kept.size();
}

ObjectClient::Space ObjectClient::try_reserve(std::uint64_t size) {
  Space out;
  auto session = this->session();
  if (!session) {
    want();
    return out;
  }
  if (size > kLargestReserved || session->dead || session->table->writable(nullptr) == nullptr) return out;
  std::uint64_t extent = reserve_size(size);
  std::uint32_t wanted = reserve_count(extent);
  bool refills = false;
  {
    std::lock_guard lock(session->mutex);
    session->used = true;
    auto& blanks = session->blanks[extent];
    if (!blanks.empty()) {
      out.blank_ = blanks.back();
      blanks.pop_back();
      out.session_ = session;
    }
    refills = blanks.size() <= wanted / 2 && session->refilling.insert(extent).second;
    if (refills) wanted -= static_cast<std::uint32_t>(blanks.size());
  }
  if (refills) refill(session, extent, wanted);
  return out;
}

std::uint64_t ObjectClient::reserve(std::uint64_t size, std::int64_t patience_ms,
                                    Answer<std::shared_ptr<Space>> answer) {
  std::uint64_t ticket = ++tickets_;
  auto ask = [this, ticket, size, patience_ms, answer] {
    when_attached([this, ticket, size, patience_ms, answer](Result<std::shared_ptr<ObjectSession>> session) {
      if (!session) return answer(session.error());
      ask_for_space(*session, ticket, size, patience_ms, answer);
    });
  };
  if (!post(ask)) answer(no_session(nullptr));
  return ticket;
}

Result<ObjectClient::Space> ObjectClient::reserve_now(std::uint64_t size, std::int64_t patience_ms) {
  if (Space space = try_reserve(size)) return space;
  auto answered = std::make_shared<std::promise<Result<std::shared_ptr<Space>>>>();
  auto result = answered->get_future();
  reserve(size, patience_ms,
          [answered](Result<std::shared_ptr<Space>> space) { answered->set_value(std::move(space)); });
  auto space = result.get();
  if (!space) return space.error();
  return std::move(**space);
}

// ---- reading ----

std::optional<ObjectBytes> ObjectClient::try_open(ObjectHandle& object) { return pin(object); }

std::optional<ObjectBytes> ObjectClient::pin(ObjectHandle& object) {
  std::lock_guard lock(object.mutex_);
  if (object.lost_ || !object.session_) return std::nullopt;
  ObjectSession& session = *object.session_;
  if (object.pins_ == 0) {
    const std::byte* base = session.table->readable(nullptr);
    auto where = base == nullptr || session.dead ? std::nullopt : session.pins->pin(object.slot_, object.id_);
    if (!where || where->size < object.size_) {
      if (where) session.pins->unpin(object.slot_);
      return std::nullopt;
    }
    object.bytes_ = base + where->offset;
  }
  return pinned(object);
}

// Its mutex is held.
ObjectBytes ObjectClient::pinned(ObjectHandle& object) {
  ++object.pins_;
  object.retain();
  ObjectBytes out;
  out.bytes = {object.bytes_, object.size_};
  out.owner = std::shared_ptr<const void>(object.bytes_, [this, &object](const void*) {
    unpin(object);
    object.release();
  });
  return out;
}

void ObjectClient::unpin(ObjectHandle& object) {
  std::lock_guard lock(object.mutex_);
  if (--object.pins_ > 0) return;
  object.bytes_ = nullptr;
  // The store's pages of a dead session are another process's by now, or nobody's.
  if (!object.session_->dead) object.session_->pins->unpin(object.slot_);
}

std::uint64_t ObjectClient::open(Ref<ObjectHandle> object, std::int64_t patience_ms,
                                 Answer<ObjectBytes> answer) {
  std::uint64_t ticket = ++tickets_;
  if (object->holding_ == ObjectHandle::Holding::borrowed) {
    answer(lender_gone(*object));
    return ticket;
  }
  if (!post([this, ticket, object, patience_ms, answer] {
        ask_for_bytes(ticket, object, patience_ms, answer);
      }))
    answer(no_session(nullptr));
  return ticket;
}

Result<ObjectBytes> ObjectClient::open_now(ObjectHandle& object, std::int64_t patience_ms) {
  if (auto bytes = pin(object)) return *bytes;
  if (object.holding_ == ObjectHandle::Holding::borrowed) return lender_gone(object);
  auto answered = std::make_shared<std::promise<Result<ObjectBytes>>>();
  auto result = answered->get_future();
  open(Ref<ObjectHandle>::share(&object), patience_ms,
       [answered](Result<ObjectBytes> bytes) { answered->set_value(std::move(bytes)); });
  return result.get();
}

std::byte* ObjectClient::writable(const ObjectHandle& object, const ObjectBytes& bytes) {
  ObjectTable& table = *object.session_->table;
  std::byte* base = table.writable(nullptr);
  return base == nullptr ? nullptr : base + (bytes.bytes.data() - table.readable(nullptr));
}

// ---- references in messages ----

ObjectClient::Traveller ObjectClient::send(ObjectHandle& object, std::uint64_t channel) {
  if (object.unsealed()) seal(object);
  Traveller out;
  out.id = object.id_;
  out.size = object.size_;
  std::lock_guard lock(object.mutex_);
  out.slot = object.slot_;
  if (!object.session_) return out;
  out.transit = {object.session_->node, object.session_->process, channel, ++transits_};
  push(*object.session_, {Op::sent, object.id_, out.transit});
  return out;
}

Ref<ObjectHandle> ObjectClient::receive(const Traveller& from) {
  Result<void> there = attach();
  auto session = this->session();
  ObjectHandle* found = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto& known = objects_[from.id];
    if (known != nullptr && known->try_retain())
      found = known;
    else
      found = known = new ObjectHandle(session, from.id, from.slot, from.size);
  }
  if (!session) {
    std::lock_guard lock(found->mutex_);
    if (!found->session_)
      found->lost_ = std::make_shared<const Error>(there ? no_session(nullptr) : there.error());
    return Ref<ObjectHandle>::adopt(found);
  }
  // A hold of its own for each that arrives, but one is enough for the process: the rest goes at once.
  push(*session, {Op::claim, from.id, from.transit});
  bool first = false;
  {
    std::lock_guard lock(found->mutex_);
    first = !std::exchange(found->claimed_, true);
    if (found->session_ != session) first = true;  // of a store that has ended; its reader fails anyhow
    if (found->pins_ == 0) found->slot_ = from.slot;
  }
  if (!first) push(*session, {Op::drop, from.id});
  return Ref<ObjectHandle>::adopt(found);
}

ObjectClient::Space ObjectClient::lend(ObjectHandle& object, Traveller& out) {
  ObjectSession& session = *object.session_;
  session.table->seal(object.slot_, object.id_, object.size_);
  object.holding_ = ObjectHandle::Holding::lent;
  out = {object.id_, {}, object.slot_, object.size_};
  Space space;
  space.session_ = object.session_;
  space.blank_ = object.blank_;
  return space;
}

Ref<ObjectHandle> ObjectClient::borrow(const Traveller& from, std::shared_ptr<Lender> lender) {
  Result<void> there = attach();
  auto session = this->session();
  auto* made = new ObjectHandle(session, from.id, from.slot, from.size);
  made->holding_ = ObjectHandle::Holding::borrowed;
  made->lender_ = std::move(lender);
  if (!session) made->lost_ = std::make_shared<const Error>(there ? no_session(nullptr) : there.error());
  return Ref<ObjectHandle>::adopt(made);
}

void ObjectClient::put_back(Space space) {
  auto session = space.session_;
  if (session->dead) return;
  bool watch = false;
  {
    std::lock_guard lock(session->mutex);
    auto& blanks = session->blanks[space.blank_.size];
    // Else it is given back to the store.
    bool fits = reserve_size(space.blank_.size) == space.blank_.size;
    if (!fits || session->wanted || blanks.size() >= 2 * reserve_count(space.blank_.size)) return;
    blanks.push_back(space.blank_);  // the next one taken
    space.session_ = nullptr;
    session->used = true;
    watch = !std::exchange(session->watched, true);
  }
  if (!watch) return;
  post([this, session] { outside_.loop->spawn("idle object memory", watch_idle(session)); });
}

void ObjectClient::expire(std::uint64_t channel) {
  if (auto session = this->session()) {
    Op op{Op::expire, {}};
    op.size = channel;
    push(*session, op);
  }
}

}  // namespace troupe
