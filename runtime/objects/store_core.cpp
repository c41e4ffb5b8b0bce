// Objects and where their bytes lie. References: store_refs.cpp. Room: store_room.cpp.
#include "runtime/objects/store_core.h"

#include <algorithm>

namespace troupe {

StoreCore::StoreCore(Limits limits, SlotTable& table)
    : limits_(limits), table_(table), extents_(limits.capacity) {
  free_slots_.resize(limits.slots);
  for (std::uint32_t i = 0; i < limits.slots; ++i) free_slots_[i] = limits.slots - 1 - i;
}

StoreCore::Object* StoreCore::find(const ObjectId& id) {
  auto at = objects_.find(id);
  return at == objects_.end() ? nullptr : &at->second;
}

Error StoreCore::unknown(const ObjectId& id) const {
  if (id.cluster != cluster_)
    return Error(ErrorKind::invalid_argument, "object " + to_string(id) + " belongs to another cluster");
  return Error(ErrorKind::object_lost,
               "object " + to_string(id) + " is gone: nobody held it any more, or its node was lost");
}

Error StoreCore::orphaned(const ObjectId& id) const {
  return Error(ErrorKind::object_lost, "the memory that object " + to_string(id) +
                                           " stands for is lost: the process that it belonged to has ended");
}

// ---- what is said too early ----

bool StoreCore::may_come(const ObjectId& id) const {
  return mine(id) && id.cluster == cluster_ && objects_.count(id) == 0 &&
         processes_.count(id.number >> kObjectCounterBits) > 0;
}

StoreCore::Unborn* StoreCore::unborn(const ObjectId& id, Now now) {
  if (auto at = unborn_.find(id); at != unborn_.end()) return &at->second;
  if (!may_come(id) || unborn_.size() >= kMostEarly) return nullptr;
  Unborn& made = unborn_[id];
  made.until = now + kUnborn;
  return &made;
}

void StoreCore::born(const ObjectId& id, Now now, Actions& out) {
  auto at = unborn_.find(id);
  if (at == unborn_.end()) return;
  auto words = std::move(at->second.words);
  unborn_.erase(at);
  for (const Word& word : words) {
    if (word.what == Word::claim) claim(word.process, id, word.transit, now, out);
    if (word.what == Word::drop) drop(word.process, id, now, out);
    if (word.what == Word::sent) sent(word.process, id, word.transit, now, out);
    if (word.what == Word::get) get(word.process, word.getter.ticket, id, word.getter.until, now, out);
  }
}

void StoreCore::never_born(const ObjectId& id, Actions& out) {
  auto at = unborn_.find(id);
  if (at == unborn_.end()) return;
  auto words = std::move(at->second.words);
  unborn_.erase(at);
  for (const Word& word : words) {
    if (word.what == Word::claim) out.push_back(Lost{word.process, id, unknown(id)});
    if (word.what == Word::get) out.push_back(Failed{word.process, word.getter.ticket, unknown(id)});
  }
}

// ---- processes ----

StoreCore::Process StoreCore::attach(std::uint32_t page, std::int32_t pid) {
  Process process = ++processes_made_;
  Attached& made = processes_[process];
  made.page = page;
  made.pid = pid;
  return process;
}

void StoreCore::detach(Process process, Now now, Actions& out) {
  auto at = processes_.find(process);
  if (at == processes_.end() || at->second.dead) return;
  at->second.dead = true;
  dying_.emplace_back(now + kDeathGrace, process);
  std::erase_if(waiters_,
                [process](const Waiter& w) { return w.want == Want::create && w.process == process; });
  for (const ObjectId& id : awaited_) {
    Object* object = find(id);
    if (object == nullptr) continue;
    std::erase_if(object->getters, [process](const Getter& getter) { return getter.process == process; });
  }
  serve(now, out);
}

void StoreCore::bury(Process process, Now now, Actions& out) {
  auto at = processes_.find(process);
  if (at == processes_.end()) return;
  Attached gone = std::move(at->second);
  processes_.erase(at);
  std::vector<ObjectId> never;
  for (const auto& [id, words] : unborn_) {
    if (id.number >> kObjectCounterBits == process) never.push_back(id);
  }
  for (const ObjectId& id : never) never_born(id, out);
  for (std::uint32_t slot : gone.blanks) {
    Taken blank = blanks_.at(slot);
    blanks_.erase(slot);
    blank_bytes_ -= blank.size;
    // Lent with a message, perhaps the last, which is still to be read.
    if (table_.sealed(slot))
      lent_.push_back({now + kTransitLease, {slot, blank.offset, blank.size}});
    else
      release(slot, blank.offset, blank.size);
  }
  Transit from{node_, process, 0, 0};
  for (auto t = transits_.lower_bound(from);
       t != transits_.end() && t->first.node == node_ && t->first.process == process; ++t)
    leases_.emplace_back(now + kTransitLease, t->first);
  early_.erase(early_.lower_bound(from), early_.lower_bound({node_, process + 1, 0, 0}));
  for (const ObjectId& id : gone.watches) {
    Object* object = find(id);
    if (object == nullptr) continue;
    object->watcher = 0;
    object->orphan = true;
    for (const auto& [holder, count] : object->holds) {
      if (holder != process) out.push_back(Lost{holder, id, orphaned(id)});
    }
  }
  for (auto& [id, count] : gone.holds) {
    Object* object = find(id);
    if (object == nullptr) continue;
    std::erase_if(object->holds, [process](const auto& one) { return one.first == process; });
    settle(*object, now, out);
  }
  serve(now, out);
}

std::vector<StoreCore::Blank> StoreCore::lease(Process process, std::uint64_t size, std::uint32_t count) {
  std::vector<Blank> out;
  auto at = processes_.find(process);
  if (at == processes_.end() || at->second.dead || !waiters_.empty()) return out;
  std::uint64_t extent = Extents::rounded(size);
  // No process holds more than an eighth of the memory in reserve.
  while (out.size() < count && extent * (at->second.blanks.size() + 1) <= limits_.capacity / 8) {
    auto blank = take(extent);
    if (!blank) break;
    at->second.blanks.insert(blank->slot);
    blanks_[blank->slot] = {process, blank->offset, blank->size};
    blank_bytes_ += blank->size;
    out.push_back(*blank);
  }
  at->second.asked = false;
  return out;
}

void StoreCore::created(Process process, const ObjectId& id, std::uint32_t slot, std::uint64_t size,
                        bool watched, Now now, Actions& out) {
  auto who = processes_.find(process);
  auto blank = blanks_.find(slot);
  // A process of ours says nothing of the kind; another is not listened to.
  if (who == processes_.end() || blank == blanks_.end() || blank->second.process != process ||
      size > blank->second.size || !mine(id) || id.cluster != cluster_ ||
      id.number >> kObjectCounterBits != process || objects_.count(id) > 0)
    return;
  Object& object = objects_[id];
  object.id = id;
  object.in_memory = true;
  object.slot = slot;
  object.offset = blank->second.offset;
  object.extent = blank->second.size;
  object.size = size;
  object.born = now;
  object.pid = who->second.pid;
  if (watched) {
    object.watcher = process;
    who->second.watches.insert(id);
  }
  blank_bytes_ -= blank->second.size;
  blanks_.erase(blank);
  who->second.blanks.erase(slot);
  touch(object);
  hold(process, object);
  born(id, now, out);
  if (!waiters_.empty()) serve(now, out);
}

void StoreCore::discard(Process process, std::uint32_t slot, Now now, Actions& out) {
  auto blank = blanks_.find(slot);
  if (blank == blanks_.end() || blank->second.process != process) return;
  Taken taken = blank->second;
  blanks_.erase(blank);
  blank_bytes_ -= taken.size;
  if (auto who = processes_.find(process); who != processes_.end()) who->second.blanks.erase(slot);
  release(slot, taken.offset, taken.size);
  serve(now, out);
}

void StoreCore::get(Process process, Ticket ticket, const ObjectId& id, Now until, Now now, Actions& out) {
  auto who = processes_.find(process);
  if (who == processes_.end() || who->second.dead) return;
  Object* object = find(id);
  if (object == nullptr) {
    if (Unborn* later = unborn(id, now))
      later->words.push_back({Word::get, process, {}, {process, ticket, until}});
    else
      out.push_back(Failed{process, ticket, unknown(id)});
    return;
  }
  object->getters.push_back({process, ticket, until});
  awaited_.insert(id);
  switch (object->state) {
    case State::memory:
      return answer_getters(*object, out);
    case State::disk:
      return want_back(*object, until, now, out);
    case State::remote:
      object->state = State::pulling;
      out.push_back(Pull{id});
      return;
    case State::spilling:
    case State::restoring:
    case State::pulling:
      return;  // what goes on there answers
  }
}

void StoreCore::cancel(Process process, Ticket ticket, Now now, Actions& out) {
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    return waiter.want == Want::create && waiter.process == process && waiter.ticket == ticket;
  });
  for (const ObjectId& id : awaited_) {
    Object* object = find(id);
    if (object == nullptr) continue;
    std::erase_if(object->getters,
                  [&](const Getter& g) { return g.process == process && g.ticket == ticket; });
  }
  for (auto& [id, unborn] : unborn_) {
    std::erase_if(unborn.words, [&](const Word& word) {
      return word.what == Word::get && word.process == process && word.getter.ticket == ticket;
    });
  }
  serve(now, out);
}

void StoreCore::answer_getters(Object& object, Actions& out) {
  auto getters = std::move(object.getters);
  object.getters.clear();
  touch(object);
  for (const Getter& getter : getters) {
    auto who = processes_.find(getter.process);
    if (who == processes_.end() || who->second.dead) continue;
    table_.pin(object.slot, who->second.page);
    out.push_back(Found{getter.process, getter.ticket, object.slot, object.offset, object.size});
  }
}

void StoreCore::fail_getters(Object& object, const Error& why, Actions& out) {
  auto getters = std::move(object.getters);
  object.getters.clear();
  for (const Getter& getter : getters) out.push_back(Failed{getter.process, getter.ticket, why});
}

// ---- bytes ----

void StoreCore::touch(Object& object) {
  if (object.use != 0) lru_.erase(object.use);
  object.use = ++uses_;
  lru_[object.use] = &object;
}

void StoreCore::leave_memory(Object& object) {
  if (object.use != 0) lru_.erase(object.use);
  object.use = 0;
  if (!std::exchange(object.in_memory, false)) return;
  release(object.slot, object.offset, object.extent);
}

void StoreCore::release(std::uint32_t slot, std::uint64_t offset, std::uint64_t extent) {
  if (!table_.seize(slot)) {
    retired_.push_back({slot, offset, extent});
    return;
  }
  table_.clear(slot);
  extents_.free(offset, extent);
  free_slots_.push_back(slot);
}

bool StoreCore::retry_retired() {
  auto before = std::exchange(retired_, {});
  for (const Retired& one : before) release(one.slot, one.offset, one.extent);
  return retired_.size() < before.size();
}

std::optional<StoreCore::Blank> StoreCore::take(std::uint64_t size) {
  if (free_slots_.empty()) return std::nullopt;
  std::uint64_t warm = std::max(extents_.high_water(), populated_);
  auto offset = extents_.take(size);
  if (!offset) return std::nullopt;
  Blank blank{free_slots_.back(), *offset, size, *offset + size <= warm};
  free_slots_.pop_back();
  table_.blank(blank.slot, blank.offset, blank.size);
  return blank;
}

// ---- copies of remote objects ----

void StoreCore::reserve(const ObjectId& id, std::uint64_t size, Now until, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || object->state != State::pulling || object->in_memory || object->queued) {
    out.push_back(Refused{id, Error(ErrorKind::object_lost, "nobody waits for object " + to_string(id))});
    return;
  }
  object->size = size;
  object->queued = true;
  enqueue({Want::reserve, 0, 0, id, size, until}, now, out);
}

void StoreCore::sealed(const ObjectId& id, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || object->state != State::pulling || !object->in_memory) return;
  object->state = State::memory;
  object->stopping = false;
  table_.publish(object->slot, id, object->size);
  answer_getters(*object, out);
  settle(*object, now, out);
  serve(now, out);
}

void StoreCore::aborted(const ObjectId& id, const Error& why, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || object->state != State::pulling) return;
  object->state = State::remote;
  object->queued = false;
  std::erase_if(waiters_, [&](const Waiter& w) { return w.want == Want::reserve && w.id == id; });
  leave_memory(*object);
  bool stopped = std::exchange(object->stopping, false);
  if (stopped && !object->holds.empty() && !object->getters.empty()) {
    // Somebody wants it again, who came while the pull was being ended.
    object->state = State::pulling;
    out.push_back(Pull{id});
  } else {
    fail_getters(*object, why, out);
    settle(*object, now, out);
  }
  serve(now, out);
}

std::optional<StoreCore::Copy> StoreCore::copy(const ObjectId& id) const {
  auto at = objects_.find(id);
  if (at == objects_.end() || at->second.state != State::memory) return std::nullopt;
  return Copy{at->second.slot, at->second.offset, at->second.size};
}

std::optional<std::uint64_t> StoreCore::size_of(const ObjectId& id) const {
  auto at = objects_.find(id);
  if (at == objects_.end() || !mine(id)) return std::nullopt;
  return at->second.size;
}

// ---- for people ----

StoreCore::Usage StoreCore::usage() const {
  Usage out;
  out.capacity = limits_.capacity;
  out.used = extents_.used();
  out.blank = blank_bytes_;
  out.touched = std::max(extents_.high_water(), populated_);
  out.spilled = disk_;
  out.disk = limits_.disk;
  out.objects = objects_.size();
  out.spilled_objects = on_disk_;
  out.waiting = waiters_.size();
  for (const auto& [number, one] : processes_) out.processes += !one.dead;
  out.spills = spills_;
  out.restores = restores_;
  for (const auto& [use, object] : lru_) out.pinned += table_.pinned(object->slot) ? object->extent : 0;
  for (const Retired& one : retired_) out.pinned += one.extent;
  return out;
}

std::vector<StoreCore::View> StoreCore::list(std::size_t limit, Now now) const {
  static constexpr const char* kNames[] = {"memory", "spilling", "disk", "restoring", "remote", "pulling"};
  std::vector<View> out;
  for (const auto& [id, object] : objects_) {
    if (limit != 0 && out.size() == limit) break;
    View view{id, object.size, kNames[static_cast<int>(object.state)]};
    view.holders = static_cast<std::uint32_t>(object.holds.size());
    view.transits = object.transits;
    view.borrowers.assign(object.borrowers.begin(), object.borrowers.end());
    view.pinned = object.in_memory && table_.pinned(object.slot);
    view.age = now - object.born;
    view.pid = object.pid;
    out.push_back(std::move(view));
  }
  return out;
}

std::string StoreCore::check() const {
  std::uint64_t bytes = 0, slots = free_slots_.size(), disk = 0, transits = 0, spilling = 0;
  for (const auto& [id, object] : objects_) {
    bool memory = object.state == State::memory || object.state == State::spilling ||
                  object.state == State::restoring || (object.state == State::pulling && object.in_memory);
    std::string name = "object " + to_string(id) + ": ";
    if (memory != object.in_memory) return name + "its state and its memory differ";
    if (object.in_memory) bytes += object.extent, ++slots;
    if ((object.state == State::memory) != (object.use != 0)) return name + "it is in the wrong order of use";
    if (object.state == State::disk || object.state == State::restoring || object.state == State::spilling)
      disk += object.size;
    if (object.state == State::spilling) spilling += object.extent;
    transits += object.transits;
    if (object.state == State::memory && !object.getters.empty()) return name + "it is there, and awaited";
    bool awaited = object.queued || object.state == State::spilling || object.state == State::restoring ||
                   object.state == State::pulling;
    if (!object.getters.empty() && !awaited) return name + "awaited, and nothing goes on";
    if (object.holds.empty() && object.transits == 0 && object.borrowers.empty() && !awaited &&
        !object.borrowing)
      return name + "nobody holds it";
    for (const auto& [process, count] : object.holds) {
      auto at = processes_.find(process);
      if (at == processes_.end() || at->second.holds.count(id) == 0 || at->second.holds.at(id) != count)
        return name + "process " + std::to_string(process) + " holds it another number of times";
    }
    if (object.watcher != 0) {
      auto at = processes_.find(object.watcher);
      if (at == processes_.end() || at->second.watches.count(id) == 0)
        return name + "its watcher does not know";
    }
  }
  for (const auto& [slot, blank] : blanks_) bytes += blank.size, ++slots;
  for (const Retired& one : retired_) bytes += one.extent, ++slots;
  for (const auto& [until, one] : lent_) bytes += one.extent, ++slots;
  if (bytes != extents_.used())
    return "extents in use: " + std::to_string(extents_.used()) + ", known: " + std::to_string(bytes);
  if (slots != limits_.slots) return std::to_string(slots) + " slots are accounted for";
  if (disk != disk_) return "the disk's use is off by " + std::to_string(disk - disk_);
  if (transits != transits_.size()) return "transits differ";
  if (spilling != spilling_) return "what is being spilled differs";
  for (const auto& [number, process] : processes_) {
    for (const auto& [id, count] : process.holds) {
      if (objects_.count(id) == 0)
        return "process " + std::to_string(number) + " holds object " + to_string(id) +
               ", which is not there";
    }
  }
  return "";
}

}  // namespace troupe
