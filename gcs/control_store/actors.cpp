// The life of actors: from spawn to burial.
#include <algorithm>

#include "gcs/control_store/control_store.h"

namespace troupe::gcs {

Cause ControlStore::failure(ErrorKind kind, std::string message, const ActorRecord& record) const {
  auto error = std::make_shared<Error>(kind, std::move(message));
  error->actor = record.spec->actor;
  error->incarnation = record.incarnation;
  error->node = record.node;
  return error;
}

// The one place where an actor's phase changes.
bool ControlStore::advance(ActorRecord& record, Trigger trigger, Actions& out) {
  std::optional<Step> next = step(record.phase, trigger);
  if (!next) return false;
  --counts_[static_cast<int>(record.phase)];
  ++counts_[static_cast<int>(next->to)];
  record.phase = next->to;
  if (next->effects & kBegin) {
    ++record.incarnation;
    record.infeasible = false;
    record.wake_at = 0;
  }
  if (next->to != Phase::alive) record.endpoint = nullptr;
  if (next->effects & kPersist) persist(record, out);
  if (next->effects & kBury) {
    if (!record.spec->name.empty()) names_.erase(record.spec->name);
    placement_.cancel(record.spec->actor);
    record.infeasible = false;
    record.wake_at = 0;
    JobRecord& job = jobs_.at(record.job);
    --job.live;
    if (record.in_owner.linked) {
      auto owner = actors_.find(record.spec->owner);
      if (owner != actors_.end()) owner->second.children.remove(record);
      if (!record.spec->owner) processes_.at(spawner_of(record.spec->actor)).owned.remove(record);
    }
  }
  if (next->effects & kAnnounce) announce(record, out);
  if ((next->effects & kRequeue) && !record.node) requeue(record);
  if (next->effects & kBury) bury_if_gone(record, out);
  return true;
}

// Counts this restart, if it may be.
bool ControlStore::restart_left(ActorRecord& record) const {
  std::int32_t most = record.spec->max_restarts;
  Time window = record.spec->restart_window;
  if (most < 0) return true;
  if (window == 0) return record.restarts < static_cast<std::uint32_t>(most);
  std::erase_if(record.recent, [&](Time at) { return now_ - at >= window; });
  if (record.recent.size() >= static_cast<std::size_t>(most)) return false;
  record.recent.push_back(now_);
  return true;
}

// The current incarnation has ended, or must. `held`: its process may still run, so the node is told to end
// it and what it holds is free only then.
void ControlStore::incarnation_over(ActorRecord& record, Cause why, Lease lease, bool may_restart,
                                    Actions& out) {
  bool live = record.phase == Phase::starting || record.phase == Phase::alive;
  if (live) {
    record.children.each([&](ActorRecord& child) {
      doomed_.push_back(
          {child.spec->actor,
           failure(ErrorKind::cancelled, "its owner " + to_string(record.spec->actor) + " ended", child)});
    });
    if (record.alive_since != 0 && now_ - record.alive_since >= options_.steady) record.strikes = 0;
    ++record.strikes;
    record.suspect_deaths = record.suspect == record.node ? record.suspect_deaths + 1 : 1;
    record.suspect = record.node;
    record.alive_since = 0;
    record.failure = std::move(why);
  }
  if (lease == Lease::held) {
    order_destroy(record, out);
  } else {
    release_lease(record, out);
  }
  if (!live) return;
  bool again = may_restart && restart_left(record);
  over_.push_back({record.spec->actor, record.incarnation, record.failure, !again});
  if (again) {
    ++record.restarts;
    advance(record, Trigger::failed, out);
  } else {
    advance(record, Trigger::doomed, out);
  }
}

void ControlStore::doom(ActorRecord& record, Cause why, Actions& out) {
  if (record.phase == Phase::dead) return;
  if (record.phase == Phase::starting || record.phase == Phase::alive) {
    incarnation_over(record, std::move(why), Lease::held, false, out);
  } else {
    record.failure = std::move(why);
    over_.push_back({record.spec->actor, record.incarnation, record.failure, true});
    advance(record, Trigger::doomed, out);
  }
}

void ControlStore::doom_the_doomed(Actions& out) {
  while (!doomed_.empty()) {
    Doomed next = std::move(doomed_.back());
    doomed_.pop_back();
    auto at = actors_.find(next.actor);
    if (at != actors_.end()) doom(at->second, std::move(next.why), out);
  }
}

void ControlStore::order_destroy(ActorRecord& record, Actions& out) {
  if (!record.node || record.ending) return;
  record.ending = true;
  if (nodes_.at(record.node).phase == NodePhase::alive) {
    out.push_back({turn_, Destroy{record.node, record.spec->actor, record.incarnation}});
  }
}

void ControlStore::release_lease(ActorRecord& record, Actions& out) {
  if (!record.node) return;
  NodeId node = record.node;
  ProcessId process_id = record.process;
  placement_.give_back(node, record.spec->resources, record.gpus);
  ProcessRecord& process = processes_.at(process_id);
  process.hosted.remove(record);
  record.node = {};
  record.process = {};
  record.gpus = {};
  record.ending = false;
  persist(record, out);  // or a head that starts anew would hold what others have been given by then
  if (!process.light) process_over(process_id, record.failure, out);
  JobRecord& job = jobs_.at(record.job);
  JobRecord::OnNode& there = job.nodes[node];
  if (--there.leases == 0 && job.ended && there.started) end_job_on(node, record.job, out);
  if (there.leases == 0 && !there.started && !there.light) {
    job.nodes.erase(node);
    nodes_.at(node).jobs.erase(record.job);
  }
  if (record.phase == Phase::restarting) requeue(record);
  bury_if_gone(record, out);
}

// Back to the queue, after a back-off that doubles with each failure in short succession.
void ControlStore::requeue(ActorRecord& record) {
  if (record.strikes <= 1) return enqueue(record);
  std::uint32_t doublings = std::min(record.strikes - 2, 20u);
  Time wait = std::min(options_.back_off << doublings, options_.most_back_off);
  record.wake_at = now_ + wait;
  wakes_.insert({record.wake_at, record.spec->actor});
}

void ControlStore::enqueue(ActorRecord& record) {
  record.wake_at = 0;
  NodeId avoid = record.suspect_deaths >= 2 ? record.suspect : NodeId{};
  const std::string& node = record.home.empty() ? record.spec->node : record.home;
  placement_.wait(record.spec->actor, record.spec->resources, node, avoid);
}

void ControlStore::settle(Actions& out) {
  Settled settled;
  placement_.settle(settled);
  for (Grant& grant : settled.granted) begin_incarnation(actors_.at(grant.actor), std::move(grant), out);
  for (ActorId id : settled.judged) {
    auto at = actors_.find(id);
    if (at == actors_.end() || !placement_.waits(id)) continue;
    ActorRecord& record = at->second;
    if (record.infeasible == placement_.infeasible(id)) continue;
    record.infeasible = !record.infeasible;
    announce(record, out);
  }
}

void ControlStore::begin_incarnation(ActorRecord& record, Grant grant, Actions& out) {
  JobRecord& job = jobs_.at(record.job);
  NodeRecord& node = nodes_.at(grant.node);
  JobRecord::OnNode& there = job.nodes[grant.node];
  node.jobs.insert(record.job);
  bool light = record.spec->isolation == Isolation::light;
  ProcessId process = light ? there.light : ProcessId{};
  if (!process) {
    process = {next_id(Counter::process, out)};
    ProcessRecord fresh;
    fresh.job = record.job;
    fresh.node = grant.node;
    fresh.light = light;
    processes_.emplace(process, std::move(fresh));
    node.processes.insert(process);
    if (light) there.light = process;
  }
  record.node = grant.node;
  record.process = process;
  record.gpus = std::move(grant.gpus);
  ++there.leases;
  if (record.spec->durability && record.spec->durability->place == Durability::Place::node) {
    record.home = node.info.name;  // its files lie there
  }
  processes_.at(process).hosted.add(record);
  advance(record, Trigger::placed, out);
  start_job(record.node, record.job, out);
  send_place(record, out);
}

void ControlStore::start_job(NodeId node, JobId job, Actions& out) {
  JobRecord::OnNode& there = jobs_.at(job).nodes[node];
  if (there.started) return;
  there.started = true;
  out.push_back({turn_, StartJob{node, job}});
}

void ControlStore::send_place(const ActorRecord& record, Actions& out) {
  out.push_back({turn_, Place{record.node, record.spec, record.incarnation, record.job, record.process,
                              record.gpus, record.served}});
}

void ControlStore::announce(ActorRecord& record, Actions& out) {
  ProcessId session = spawner_of(record.spec->actor);
  if (processes_.count(session) != 0 || session == last_told_)
    out.push_back({record.written, Notify{session, state_of(record)}});
  auto at = waiters_.find(record.spec->actor);
  if (at == waiters_.end()) return;
  std::erase_if(at->second, [&](const Waiter& waiter) {
    if (!answers(record, waiter.after)) return false;
    reply(waiter.request, state_of(record), record.written, out);
    return true;
  });
  if (at->second.empty()) waiters_.erase(at);
}

// Dead and without lease: only the record is left, among the last of its kind.
void ControlStore::bury_if_gone(ActorRecord& record, Actions& out) {
  if (record.phase != Phase::dead || record.node || !record.in_job.linked) return;
  JobId job = record.job;
  jobs_.at(job).actors.remove(record);
  dead_actors_.push_back(record.spec->actor);
  close_job_if_gone(job, out);
}

}  // namespace troupe::gcs
