// The tables as the store gave them back, after a restart of the head.
#include <algorithm>

#include "gcs/control_store/control_store.h"

namespace troupe::gcs {

void ControlStore::restore(Snapshot snapshot, Time now, Actions& out) {
  now_ = now;
  for (int i = 0; i < kCounters; ++i)
    next_[i] = limits_[i] = std::max<std::uint64_t>(1, snapshot.counters[i]);
  auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::sort(snapshot.nodes.begin(), snapshot.nodes.end(), by_id);
  for (StoredNode& stored : snapshot.nodes) {
    NodeRecord node;
    node.info = std::move(stored.info);
    node.joined = stored.joined;
    node.reason = std::move(stored.reason);
    node.phase = stored.alive ? NodePhase::awaited : NodePhase::dead;
    if (stored.alive) {
      node.deadline = now + options_.grace;
      deadlines_.insert(node.deadline);
      placement_.add_node(stored.id, node.info.name, node.info.resources, false);
    } else {
      dead_nodes_.push_back(stored.id);
    }
    next_[0] = limits_[0] = std::max(limits_[0], stored.id.value + 1);
    nodes_.emplace(stored.id, std::move(node));
  }
  for (StoredJob& stored : snapshot.jobs) {
    JobRecord job;
    job.info = std::move(stored.info);
    job.driver = stored.driver;
    job.ended = stored.ended;
    job.started_at = stored.started_at;
    job.ended_at = stored.ended_at;
    job.reason = std::move(stored.reason);
    if (!job.ended) {
      job.awaited = true;
      job.deadline = now + options_.grace;
      deadlines_.insert(job.deadline);
      processes_[job.driver].job = job.info.job;
    }
    next_[1] = limits_[1] = std::max(limits_[1], job.info.job.value + 1);
    next_[2] = limits_[2] = std::max(limits_[2], job.driver.value + 1);
    JobId id = job.info.job;
    jobs_.emplace(id, std::move(job));
  }
  std::sort(snapshot.actors.begin(), snapshot.actors.end(),
            [](const StoredActor& a, const StoredActor& b) { return a.spec->actor < b.spec->actor; });
  std::vector<ActorId> orphans;
  for (StoredActor& stored : snapshot.actors) restore_actor(stored, orphans, out);
  for (int i = 0; i < kCounters; ++i) next_[i] = limits_[i] += snapshot.margin;
  for (StoredActor& stored : snapshot.actors) link_to_owner(stored, orphans);
  for (ActorId id : orphans) {
    doomed_.push_back(
        {id, std::make_shared<Error>(ErrorKind::actor_died, "it was lost with the head's restart")});
  }
  for (auto& [id, job] : jobs_) close_job_if_gone(id, out);
  doom_the_doomed(out);
  settle(out);
  trim(out);
}

void ControlStore::restore_actor(StoredActor& stored, std::vector<ActorId>& orphans, Actions& out) {
  ActorId id = stored.spec->actor;
  ActorRecord& record = actors_[id];
  record.spec = stored.spec;
  record.job = stored.job;
  record.incarnation = stored.incarnation;
  record.restarts = stored.restarts;
  record.failure = stored.failure;
  record.served = stored.served;
  record.home = stored.home;
  record.phase = stored.phase == Phase::alive ? Phase::starting : stored.phase;
  next_[2] = limits_[2] = std::max({limits_[2], stored.process.value + 1, spawner_of(id).value + 1});
  auto job = jobs_.find(stored.job);
  bool leased = job != jobs_.end() && placement_.claim(stored.node, stored.spec->resources, stored.gpus);
  if (job == jobs_.end() || (record.phase == Phase::dead && !leased)) {
    record.phase = Phase::dead;
    ++counts_[static_cast<int>(Phase::dead)];
    dead_actors_.push_back(id);
    // The node that held its lease is dead, or its job is not known: the record says so from now on.
    if (stored.node || stored.phase != Phase::dead) persist(record, out);
    return;
  }
  ++counts_[static_cast<int>(record.phase)];
  job->second.actors.add(record);
  if (leased) {
    bool light = stored.spec->isolation == Isolation::light;
    ProcessRecord& process = processes_[stored.process];
    process.job = stored.job;
    process.node = stored.node;
    process.light = light;
    process.hosted.add(record);
    record.node = stored.node;
    record.process = stored.process;
    record.gpus = stored.gpus;
    JobRecord::OnNode& there = job->second.nodes[stored.node];
    ++there.leases;
    there.started = true;
    if (light && record.phase != Phase::dead) there.light = stored.process;
    NodeRecord& node = nodes_.at(stored.node);
    node.processes.insert(stored.process);
    node.jobs.insert(stored.job);
  }
  if (record.phase == Phase::dead) return;
  ++job->second.live;
  if (!stored.spec->name.empty()) names_.emplace(stored.spec->name, id);
  if (record.phase == Phase::starting && !leased) orphans.push_back(id);
  if ((record.phase == Phase::pending || record.phase == Phase::restarting) && !leased) enqueue(record);
}

void ControlStore::link_to_owner(StoredActor& stored, std::vector<ActorId>& orphans) {
  ActorRecord& record = actors_.at(stored.spec->actor);
  if (record.phase == Phase::dead || stored.spec->detached) return;
  if (stored.spec->owner) {
    auto owner = actors_.find(stored.spec->owner);
    if (owner != actors_.end() && owner->second.phase != Phase::dead) {
      owner->second.children.add(record);
      return;
    }
  } else if (auto owner = processes_.find(spawner_of(stored.spec->actor)); owner != processes_.end()) {
    owner->second.owned.add(record);
    return;
  }
  orphans.push_back(stored.spec->actor);
}

}  // namespace troupe::gcs
