// Room: who waits for it, what goes to disk for it, in the order of the last use.
#include <algorithm>

#include "runtime/objects/store_core.h"

namespace troupe {
namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

}  // namespace

Error StoreCore::full(std::uint64_t size, const std::string& why) const {
  Usage now = usage();
  return Error(ErrorKind::object_store_full,
               "no room for an object of " + std::to_string(size) + " bytes on node " + to_string(node_) +
                   ": " + why + " (memory: " + mebibytes(now.used) + " of " + mebibytes(now.capacity) +
                   " in use, " + mebibytes(now.pinned) + " being read; disk: " + mebibytes(now.spilled) +
                   " of " + mebibytes(now.disk) +
                   " in use). Drop references, or give the node more with --object-memory or "
                   "--object-disk; `troupe memory` shows what there is");
}

void StoreCore::create(Process process, Ticket ticket, std::uint64_t size, Now until, Now now, Actions& out) {
  auto at = processes_.find(process);
  if (at == processes_.end() || at->second.dead) return;
  if (size > limits_.capacity || Extents::rounded(size) > limits_.capacity) {
    out.push_back(Failed{process, ticket, full(size, "it is larger than the node's object memory")});
    return;
  }
  enqueue({Want::create, process, ticket, {}, size, until}, now, out);
}

void StoreCore::want_back(Object& object, Now until, Now now, Actions& out) {
  if (std::exchange(object.queued, true)) return;
  enqueue({Want::restore, 0, 0, object.id, object.size, until}, now, out);
}

void StoreCore::enqueue(Waiter waiter, Now now, Actions& out) {
  if (waiters_.size() >= kMostWaiting) {
    return refuse(waiter,
                  Error(ErrorKind::overloaded,
                        std::to_string(kMostWaiting) + " requests wait for object memory already"),
                  out);
  }
  waiters_.push_back(std::move(waiter));
  serve(now, out);
}

// The first in the queue is served first, so that a large one is not passed by small ones for ever.
void StoreCore::serve(Now now, Actions& out) {
  while (!waiters_.empty()) {
    std::uint64_t size = Extents::rounded(waiters_.front().size);
    auto blank = take(size);
    if (!blank && retry_retired()) continue;
    if (blank) {
      Waiter waiter = std::move(waiters_.front());
      waiters_.pop_front();
      grant(waiter, *blank, out);
      continue;
    }
    std::uint64_t before = extents_.used();
    bool possible = make_room(size, now, out);
    if (extents_.used() < before) continue;  // copies of remote objects went at once
    if (spilling_ > 0) return;
    Waiter& first = waiters_.front();
    for (auto& [number, process] : processes_) {
      if (process.blanks.empty() || process.dead || std::exchange(process.asked, true)) continue;
      out.push_back(GiveBack{number});
    }
    if (possible) {
      first.full_since = -1;
      return;  // somebody reads it all: until that ends, or the waiter's time
    }
    if (first.full_since < 0) first.full_since = now;
    if (now - first.full_since < kDiskRetry) return;  // what others drop now still comes
    Waiter waiter = std::move(waiters_.front());
    waiters_.pop_front();
    refuse(waiter, full(waiter.size, "the memory is full, and so is the disk space for spilling"), out);
  }
}

bool StoreCore::make_room(std::uint64_t size, Now now, Actions& out) {
  bool disk_refused = false, spilled_any = false;
  std::size_t most = std::min<std::size_t>(lru_.size(), 4096);
  for (std::size_t i = 0; i < most; ++i) {
    bool enough = extents_.capacity() - extents_.used() + spilling_ >= size && !free_slots_.empty();
    if (enough && spilling_ > 0) break;
    if (spilled_any && extents_.largest() >= size) break;
    auto at = lru_.begin();
    Object& victim = *at->second;
    if (mine(victim.id) && (disk_ + victim.size > limits_.disk || now - disk_failed_ < kDiskRetry)) {
      disk_refused = true;
      touch(victim);
      continue;
    }
    if (!table_.seize(victim.slot)) {
      touch(victim);
      continue;
    }
    lru_.erase(at);
    victim.use = 0;
    if (!mine(victim.id)) {  // its home has it
      victim.state = State::remote;
      victim.in_memory = false;
      table_.clear(victim.slot);
      extents_.free(victim.offset, victim.extent);
      free_slots_.push_back(victim.slot);
      spilled_any = true;
      continue;
    }
    victim.state = State::spilling;
    spilling_ += victim.extent;
    disk_ += victim.size;
    ++on_disk_;
    out.push_back(Spill{victim.id, victim.offset, victim.size});
  }
  return !disk_refused;
}

void StoreCore::grant(const Waiter& waiter, const Blank& blank, Actions& out) {
  if (waiter.want == Want::create) {
    processes_.at(waiter.process).blanks.insert(blank.slot);
    blanks_[blank.slot] = {waiter.process, blank.offset, blank.size};
    blank_bytes_ += blank.size;
    out.push_back(Made{waiter.process, waiter.ticket, blank});
    return;
  }
  Object& object = *find(waiter.id);
  object.queued = false;
  object.in_memory = true;
  object.slot = blank.slot;
  object.offset = blank.offset;
  object.extent = blank.size;
  if (waiter.want == Want::reserve) {
    out.push_back(Reserved{waiter.id, blank});
    return;
  }
  object.state = State::restoring;
  out.push_back(Restore{waiter.id, blank.offset, object.size});
}

void StoreCore::refuse(const Waiter& waiter, const Error& why, Actions& out) {
  if (waiter.want == Want::create) {
    out.push_back(Failed{waiter.process, waiter.ticket, why});
    return;
  }
  Object* object = find(waiter.id);
  if (object == nullptr) return;
  object->queued = false;
  if (waiter.want == Want::reserve)
    out.push_back(Refused{waiter.id, why});
  else
    fail_getters(*object, why, out);
}

void StoreCore::spilled(const ObjectId& id, Result<void> done, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || object->state != State::spilling) return;
  spilling_ -= object->extent;
  if (!done) {
    disk_ -= object->size;
    --on_disk_;
    disk_failed_ = now;
    object->state = State::memory;
    table_.give_back(object->slot);
    answer_getters(*object, out);
  } else {
    ++spills_;
    object->state = State::disk;
    object->in_memory = false;
    table_.clear(object->slot);
    extents_.free(object->offset, object->extent);
    free_slots_.push_back(object->slot);
    if (!object->getters.empty()) want_back(*object, object->getters.front().until, now, out);
    object = find(id);
  }
  if (object != nullptr) settle(*object, now, out);
  serve(now, out);
}

void StoreCore::restored(const ObjectId& id, Result<void> done, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || object->state != State::restoring) return;
  if (!done) {
    object->state = State::disk;
    leave_memory(*object);
    fail_getters(*object, done.error(), out);
  } else {
    ++restores_;
    object->state = State::memory;
    disk_ -= object->size;
    --on_disk_;
    out.push_back(RemoveFile{id});
    table_.publish(object->slot, id, object->size);
    answer_getters(*object, out);
  }
  settle(*object, now, out);
  serve(now, out);
}

// ---- time ----

bool StoreCore::restless() const {
  return !waiters_.empty() || !dying_.empty() || !leases_.empty() || !lent_.empty() || !retired_.empty() ||
         !awaited_.empty() || !unborn_.empty();
}

void StoreCore::tick(Now now, Actions& out) {
  for (; !dying_.empty() && dying_.front().first <= now; dying_.pop_front())
    bury(dying_.front().second, now, out);
  for (; !leases_.empty() && leases_.front().first <= now; leases_.pop_front()) {
    auto at = transits_.find(leases_.front().second);
    if (at == transits_.end()) continue;
    Object* object = find(at->second);
    transits_.erase(at);
    if (object == nullptr) continue;
    --object->transits;
    settle(*object, now, out);
  }
  for (; !lent_.empty() && lent_.front().first <= now; lent_.pop_front()) {
    Retired one = lent_.front().second;
    release(one.slot, one.offset, one.extent);
  }
  retry_retired();
  for (std::size_t i = 0; i < waiters_.size();) {
    const Waiter& waiter = waiters_[i];
    // Who waits for an object to come back has a limit of its own; without one nobody needs it now.
    Object* wanted = waiter.want == Want::restore ? find(waiter.id) : nullptr;
    bool over = wanted != nullptr ? wanted->getters.empty() : waiter.until <= now;
    if (!over) {
      ++i;
      continue;
    }
    Waiter late = std::move(waiters_[i]);
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    refuse(late, full(late.size, "what is there is being read or in use, and nothing became free in time"),
           out);
  }
  for (auto at = awaited_.begin(); at != awaited_.end();) {
    const ObjectId& id = *at;
    Object* object = find(id);
    if (object != nullptr) {
      std::erase_if(object->getters, [&](const Getter& getter) {
        if (getter.until > now) return false;
        Error late(ErrorKind::deadline_exceeded,
                   "object " + to_string(id) + " did not come into memory in time");
        out.push_back(Failed{getter.process, getter.ticket, std::move(late)});
        return true;
      });
    }
    at = object == nullptr || object->getters.empty() ? awaited_.erase(at) : std::next(at);
  }
  std::vector<ObjectId> never;
  for (const auto& [id, unborn] : unborn_) {
    if (unborn.until <= now) never.push_back(id);
  }
  for (const ObjectId& id : never) never_born(id, out);
  serve(now, out);
}

}  // namespace troupe
