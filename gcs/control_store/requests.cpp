// What drivers and workers ask for, and what agents report of single actors.
#include <algorithm>

#include "gcs/control_store/control_store.h"

namespace troupe::gcs {
namespace {

constexpr std::size_t kLongestName = 256;

Cause refusal(ErrorKind kind, std::string message) {
  return std::make_shared<Error>(kind, std::move(message));
}

Cause check_spec(const ActorSpec& spec) {
  if (auto ok = check_request(spec.resources); !ok) return std::make_shared<Error>(ok.error());
  if (spec.name.size() > kLongestName)
    return refusal(ErrorKind::invalid_argument, "an actor's name is too long");
  if (spec.get_or_create && spec.name.empty()) {
    return refusal(ErrorKind::invalid_argument, "get-or-create needs a name");
  }
  if (spec.max_restarts < -1) {
    return refusal(ErrorKind::invalid_argument, "max_restarts must be -1 (without limit), 0 or more");
  }
  return nullptr;
}

}  // namespace

void ControlStore::on(Spawn& e, Actions& out) {
  std::vector<SpawnResult> results;
  results.reserve(e.actors.size());
  auto from = processes_.find(e.session);
  Turn after = 0;
  for (SpecPtr& spec : e.actors) {
    if (from == processes_.end() || from->second.ending) {
      after = turn_;  // for good, as below
      results.push_back({spec->actor, refusal(ErrorKind::cancelled, "the session's process has ended")});
    } else {
      results.push_back(spawn_one(e.session, from->second, std::move(spec), after, out));
    }
  }
  reply(e.request, std::move(results), after, out);
}

SpawnResult ControlStore::spawn_one(ProcessId session, const ProcessRecord& from, SpecPtr spec, Turn& after,
                                    Actions& out) {
  ActorId id = spec->actor;
  if (spawner_of(id) != session || (id.value & kActorsPerProcess) == 0) {
    return {id,
            refusal(ErrorKind::invalid_argument,
                    "actor id " + to_string(id) + " is not in the block of process " + to_string(session))};
  }
  if (auto known = actors_.find(id); known != actors_.end()) {
    after = std::max(after, known->second.written);
    if (*known->second.spec == *spec) return {id, nullptr};  // sent again
    return {id,
            refusal(ErrorKind::already_exists, "actor id " + to_string(id) + " is taken by another actor")};
  }
  if (Cause bad = check_spec(*spec)) return {id, bad};
  ActorRecord* owner = nullptr;
  if (spec->owner && !spec->detached) {
    auto at = actors_.find(spec->owner);
    bool there = at != actors_.end() && at->second.process == session && !at->second.ending &&
                 (at->second.phase == Phase::starting || at->second.phase == Phase::alive);
    if (!there) {
      after = turn_;
      return {id, refusal(ErrorKind::cancelled, "its owner " + to_string(spec->owner) + " has ended")};
    }
    owner = &at->second;
  }
  if (!spec->name.empty()) {
    auto taken = names_.find(spec->name);
    if (taken != names_.end()) {
      const ActorRecord& holder = actors_.at(taken->second);
      after = std::max(after, holder.written);
      if (spec->get_or_create && holder.spec->class_name == spec->class_name) return {taken->second, nullptr};
      return {id, refusal(ErrorKind::already_exists, "the name " + spec->name + " is taken by actor " +
                                                         to_string(taken->second) + " of class " +
                                                         holder.spec->class_name)};
    }
    names_.emplace(spec->name, id);
  }
  ActorRecord& record = actors_[id];
  record.spec = std::move(spec);
  record.job = from.job;
  ++counts_[static_cast<int>(Phase::pending)];
  JobRecord& job = jobs_.at(from.job);
  ++job.live;
  job.actors.add(record);
  if (owner != nullptr) {
    owner->children.add(record);
  } else if (!record.spec->detached) {
    processes_.at(session).owned.add(record);
  }
  persist(record, out);
  after = std::max(after, record.written);
  enqueue(record);
  // Those who got the handle before this arrived are waiting without a record; they go on waiting with it.
  return {id, nullptr};
}

bool ControlStore::answers(const ActorRecord& record, std::uint32_t after) const {
  if (record.phase == Phase::dead || record.infeasible) return true;
  return record.phase == Phase::alive && record.incarnation > after;
}

void ControlStore::on(Resolve& e, Actions& out) {
  auto at = actors_.find(e.actor);
  if (at != actors_.end() && answers(at->second, e.after)) {
    reply(e.request, state_of(at->second), at->second.written, out);
    return;
  }
  Waiter waiter{e.request, e.session, e.after, 0};
  if (at == actors_.end()) {
    // Its spawn may still be on the way if its spawner lives; otherwise it never comes.
    waiter.deadline = processes_.count(spawner_of(e.actor)) != 0 ? now_ + options_.unknown_actor : now_;
    wakes_.insert({waiter.deadline, e.actor});
  }
  waiters_[e.actor].push_back(waiter);
}

void ControlStore::on(Find& e, Actions& out) {
  auto at = names_.find(e.name);
  if (at == names_.end()) {
    reply(e.request, Error(ErrorKind::not_found, "no actor is named " + e.name), 0, out);
    return;
  }
  const ActorRecord& record = actors_.at(at->second);
  reply(e.request, state_of(record), record.written, out);
}

void ControlStore::on(Kill& e, Actions& out) {
  auto at = actors_.find(e.actor);
  if (at == actors_.end()) {
    reply(e.request, Error(ErrorKind::not_found, "no actor " + to_string(e.actor)), turn_, out);
    return;
  }
  ActorRecord& record = at->second;
  Cause why = failure(ErrorKind::cancelled, "it was killed", record);
  if (e.no_restart) {
    doom(record, why, out);
  } else if (record.phase == Phase::starting || record.phase == Phase::alive) {
    incarnation_over(record, why, Lease::held, true, out);
  }
  reply(e.request, Done{"actor " + to_string(e.actor)}, record.written, out);
}

void ControlStore::on(ActorAlive& e, Actions& out) {
  auto at = actors_.find(e.actor);
  auto node = nodes_.find(e.node);
  if (node == nodes_.end() || node->second.phase != NodePhase::alive) return;
  bool current = at != actors_.end() && at->second.node == e.node && at->second.incarnation == e.incarnation;
  if (!current) {  // a fenced incarnation; it must go
    out.push_back({0, Destroy{e.node, e.actor, e.incarnation}});
    return;
  }
  ActorRecord& record = at->second;
  if (record.phase != Phase::starting) return;
  ProcessRecord& process = processes_.at(record.process);
  // Thousands of actors share one copy.
  auto& known = process.endpoints;
  auto same =
      std::find_if(known.begin(), known.end(), [&](const auto& endpoint) { return *endpoint == e.endpoint; });
  if (same == known.end()) {
    same = known.insert(known.end(), std::make_shared<const Endpoint>(std::move(e.endpoint)));
  }
  record.endpoint = *same;
  record.alive_since = now_;
  if (record.spec->durability && !record.served) {
    // From now on there is something to lose: known before anybody can call it.
    record.served = true;
    persist(record, out);
  }
  advance(record, Trigger::alive, out);
}

void ControlStore::on(ActorFailed& e, Actions& out) {
  auto at = actors_.find(e.actor);
  if (at == actors_.end() || at->second.node != e.node || at->second.incarnation != e.incarnation || !e.node)
    return;
  ActorRecord& record = at->second;
  Cause why = e.failure ? e.failure : failure(ErrorKind::actor_died, "it ended", record);
  // A light actor is gone with its report; a process of its own, and the GPU memory it maps, may need a kill.
  bool gone = record.spec->isolation == Isolation::light && !e.may_run;
  incarnation_over(record, std::move(why), gone ? Lease::gone : Lease::held, true, out);
}

void ControlStore::on(ActorDestroyed& e, Actions& out) {
  auto at = actors_.find(e.actor);
  if (at == actors_.end() || at->second.node != e.node || at->second.incarnation != e.incarnation || !e.node)
    return;
  if (at->second.ending) release_lease(at->second, out);
}

ActorState ControlStore::state_of(const ActorRecord& record) const {
  ActorState state{record.spec->actor, record.incarnation, record.phase, record.infeasible, nullptr, nullptr,
                   record.spec};
  if (record.phase == Phase::alive) state.endpoint = record.endpoint;
  if (record.phase == Phase::dead || record.phase == Phase::restarting) state.failure = record.failure;
  if (record.infeasible) state.failure = failure(ErrorKind::infeasible, waiting_reason(record), record);
  return state;
}

std::string ControlStore::waiting_reason(const ActorRecord& record) const {
  if (placement_.waits(record.spec->actor)) return placement_.reason(record.spec->actor);
  if (record.phase == Phase::restarting)
    return record.node ? "waits for its old process to end" : "backs off";
  return {};
}

}  // namespace troupe::gcs
