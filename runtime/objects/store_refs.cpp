// Who holds objects: processes, references on their way, other nodes.
#include <algorithm>

#include "runtime/objects/store_core.h"

namespace troupe {

void StoreCore::hold(Process process, Object& object) {
  auto at = processes_.find(process);
  if (at == processes_.end()) return;
  ++at->second.holds[object.id];
  for (auto& [who, count] : object.holds) {
    if (who == process) {
      ++count;
      return;
    }
  }
  object.holds.emplace_back(process, 1);
}

bool StoreCore::unhold(Process process, Object& object) {
  auto who = processes_.find(process);
  auto at = std::find_if(object.holds.begin(), object.holds.end(),
                         [&](const auto& one) { return one.first == process; });
  if (at == object.holds.end() || who == processes_.end()) return false;
  if (--who->second.holds[object.id] == 0) who->second.holds.erase(object.id);
  if (--at->second == 0) {
    *at = object.holds.back();
    object.holds.pop_back();
  }
  return true;
}

void StoreCore::drop(Process process, const ObjectId& id, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr) {
    if (auto at = unborn_.find(id); at != unborn_.end())
      at->second.words.push_back({Word::drop, process, {}, {}});
    return;
  }
  if (!unhold(process, *object)) return;
  settle(*object, now, out);
  if (!waiters_.empty()) serve(now, out);
}

void StoreCore::sent(Process process, const ObjectId& id, Transit transit, Now now, Actions& out) {
  transit.node = node_;
  transit.process = process;
  if (early_.erase(transit) > 0) return;
  Object* object = find(id);
  auto who = processes_.find(process);
  if (object == nullptr) {
    if (auto at = unborn_.find(id); at != unborn_.end())
      at->second.words.push_back({Word::sent, process, transit, {}});
    return;
  }
  if (who == processes_.end() || who->second.holds.count(id) == 0) return;
  if (transits_.emplace(transit, id).second) ++object->transits;
  (void)now, (void)out;
}

void StoreCore::claim(Process process, const ObjectId& id, const Transit& transit, Now now, Actions& out) {
  if (processes_.count(process) == 0) return;
  Object* object = find(id);
  bool ours = transit.node == node_;
  if (object == nullptr) {
    if (Unborn* later = unborn(id, now)) {
      later->words.push_back({Word::claim, process, transit, {}});
      return;
    }
    if (ours || mine(id) || id.cluster != cluster_) {
      out.push_back(Lost{process, id, unknown(id)});
      if (mine(id) && !ours && id.cluster == cluster_) out.push_back(Claimed{transit});
      return;
    }
    object = &objects_[id];
    object->id = id;
    object->state = State::remote;
    object->borrowing = true;
    object->born = now;
    hold(process, *object);
    out.push_back(Borrow{id, transit});
    if (transit.node != id.node) object->to_tell.push_back(transit);
    return;
  }
  hold(process, *object);
  if (object->orphan) out.push_back(Lost{process, id, orphaned(id)});
  if (ours)
    consume(transit, now, out);
  else if (object->borrowing)
    object->to_tell.push_back(transit);
  else
    out.push_back(Claimed{transit});
}

// The receiver has a hold of its own now.
void StoreCore::consume(const Transit& transit, Now now, Actions& out) {
  auto at = transits_.find(transit);
  if (at == transits_.end()) {
    // Not announced yet, or its lease has run out.
    if (processes_.count(transit.process) > 0 && early_.size() < kMostEarly) early_.insert(transit);
    return;
  }
  Object* object = find(at->second);
  transits_.erase(at);
  if (object == nullptr) return;
  --object->transits;
  settle(*object, now, out);
}

void StoreCore::claimed(const Transit& transit, Now now, Actions& out) { consume(transit, now, out); }

void StoreCore::expire(Process process, std::uint64_t channel, Now now) {
  Transit from{node_, process, channel, 0};
  auto on_channel = [&](const Transit& one) {
    return one.node == node_ && one.process == process && one.channel == channel;
  };
  for (auto at = transits_.lower_bound(from); at != transits_.end() && on_channel(at->first); ++at)
    leases_.emplace_back(now + kTransitLease, at->first);
  // All announcements of that channel have come before.
  early_.erase(early_.lower_bound(from), early_.lower_bound({node_, process, channel + 1, 0}));
}

void StoreCore::settle(Object& object, Now now, Actions& out) {
  (void)now;
  if (!object.holds.empty() || object.transits > 0 || !object.borrowers.empty() || object.borrowing) return;
  switch (object.state) {
    case State::spilling:
    case State::restoring:
      return;  // spilled() and restored() come back to it
    case State::pulling:
      object.stopping = true;
      out.push_back(StopPull{object.id});
      return;
    case State::disk:
      out.push_back(RemoveFile{object.id});
      disk_ -= object.size;
      --on_disk_;
      break;
    case State::memory:
    case State::remote:
      break;
  }
  forget(object, out);
}

void StoreCore::forget(Object& object, Actions& out) {
  ObjectId id = object.id;
  fail_getters(object, unknown(id), out);
  if (object.queued)
    std::erase_if(waiters_, [&](const Waiter& w) { return w.want != Want::create && w.id == id; });
  leave_memory(object);
  if (!mine(id)) out.push_back(Return{id});
  if (object.watcher != 0) {
    processes_.at(object.watcher).watches.erase(id);
    out.push_back(Gone{object.watcher, id});
  }
  objects_.erase(id);
}

// Its home does not know it, or is no more.
void StoreCore::lose(Object& object, const Error& why, Actions& out) {
  ObjectId id = object.id;
  fail_getters(object, why, out);
  for (const auto& [process, count] : object.holds) {
    if (auto at = processes_.find(process); at != processes_.end()) at->second.holds.erase(id);
    out.push_back(Lost{process, id, why});
  }
  object.holds.clear();
  object.borrowers.clear();
  object.borrowing = false;
  std::erase_if(transits_, [&](const auto& one) { return one.second == id; });
  object.transits = 0;
  if (object.state == State::pulling) {
    out.push_back(StopPull{id});
    return;
  }
  if (object.queued)
    std::erase_if(waiters_, [&](const Waiter& w) { return w.want != Want::create && w.id == id; });
  leave_memory(object);
  objects_.erase(id);
}

// ---- other nodes ----

bool StoreCore::lend(NodeId to, const ObjectId& id, const Transit& transit, Now now, Actions& out) {
  Object* object = find(id);
  if (object != nullptr) object->borrowers.insert(to);
  if (transit.node == node_ && node_) consume(transit, now, out);
  return object != nullptr;
}

void StoreCore::take_back(NodeId from, const ObjectId& id, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || object->borrowers.erase(from) == 0) return;
  settle(*object, now, out);
  serve(now, out);
}

void StoreCore::node_gone(NodeId node, Now now, Actions& out) {
  std::vector<ObjectId> lent, lost;
  for (auto& [id, object] : objects_) {
    if (id.node == node)
      lost.push_back(id);
    else if (object.borrowers.count(node) > 0)
      lent.push_back(id);
  }
  for (const ObjectId& id : lent) take_back(node, id, now, out);
  Error why(ErrorKind::object_lost, "");
  for (const ObjectId& id : lost) {
    why.message =
        "object " + to_string(id) + " is lost with node " + to_string(node) + ", on which it was put";
    why.node = node;
    lose(*find(id), why, out);
  }
  serve(now, out);
}

void StoreCore::borrowed(const ObjectId& id, bool known, Now now, Actions& out) {
  Object* object = find(id);
  if (object == nullptr || !object->borrowing) return;
  object->borrowing = false;
  for (const Transit& transit : std::exchange(object->to_tell, {})) out.push_back(Claimed{transit});
  if (!known) {
    lose(*object, unknown(id), out);
    return;
  }
  settle(*object, now, out);
}

std::vector<ObjectId> StoreCore::borrowed_from(NodeId home) const {
  std::vector<ObjectId> out;
  for (const auto& [id, object] : objects_) {
    if (id.node == home && home != node_) out.push_back(id);
  }
  return out;
}

}  // namespace troupe
