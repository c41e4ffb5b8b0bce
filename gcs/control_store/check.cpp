// Invariants of the control store; tests call check() after every event.
#include "gcs/control_store/control_store.h"

namespace troupe::gcs {

std::string ControlStore::check() const {
  if (std::string bad = placement_.check(); !bad.empty()) return bad;
  std::uint64_t counts[5] = {};
  std::map<NodeId, std::uint32_t> live;
  std::map<std::pair<JobId, NodeId>, std::uint32_t> leases;
  std::map<NodeId, Resources> used;
  for (const auto& [id, record] : actors_) {
    auto who = [&] { return "actor " + to_string(id) + ": "; };
    ++counts[static_cast<int>(record.phase)];
    bool running = record.phase == Phase::starting || record.phase == Phase::alive;
    if (running && !record.node) return who() + "runs nowhere";
    if (running && record.ending) return who() + "runs although it was destroyed";
    if (record.phase == Phase::pending && record.node) return who() + "is pending with a lease";
    bool queued = placement_.waits(id);
    if (queued && (record.node || running || record.phase == Phase::dead))
      return who() + "waits for a second lease";
    bool backs_off = record.phase == Phase::restarting && record.wake_at != 0;
    bool waits = record.phase == Phase::pending || (record.phase == Phase::restarting && !record.node);
    if (waits && !queued && !backs_off) return who() + "waits for nothing";
    if (record.infeasible && !queued) return who() + "is infeasible but does not wait";
    if (backs_off && wakes_.count({record.wake_at, id}) == 0) return who() + "has lost its alarm";
    if (record.phase != Phase::dead && !record.spec->name.empty() && named(record.spec->name) != id) {
      return who() + "has lost its name";
    }
    if (record.phase == Phase::dead && !record.children.empty()) return who() + "is dead and has children";
    if (record.phase != Phase::dead && !record.spec->detached && !record.in_owner.linked)
      return who() + "has no owner";
    if (record.in_job.linked == (record.phase == Phase::dead && !record.node))
      return who() + "burial is wrong";
    if (!record.node) continue;
    const ProcessRecord* process = this->process(record.process);
    if (process == nullptr || process->node != record.node || process->job != record.job) {
      return who() + "its process is not there";
    }
    ++live[record.node];
    ++leases[{record.job, record.node}];
    used[record.node].add(record.spec->resources);
  }
  for (int i = 0; i < 5; ++i) {
    if (counts[i] != counts_[i]) return "the count of phases is wrong";
  }
  for (const auto& [name, id] : names_) {
    const ActorRecord* holder = actor(id);
    if (holder == nullptr || holder->phase == Phase::dead) return "name " + name + " belongs to a dead actor";
  }
  for (const auto& [id, node] : nodes_) {
    if (node.phase == NodePhase::dead) {
      if (!node.processes.empty() || !node.jobs.empty()) return "a dead node has processes";
      continue;
    }
    if (placement_.live(id) != live[id]) return "node " + to_string(id) + ": leases and placement differ";
    Resources all = placement_.node(id)->free();
    all.add(used[id]);
    if (all != placement_.node(id)->total()) return "node " + to_string(id) + ": resources do not add up";
  }
  for (const auto& [id, job] : jobs_) {
    for (const auto& [node, there] : job.nodes) {
      if (there.leases != leases[{id, node}]) return "job " + to_string(id) + ": leases are miscounted";
      if (there.light && process(there.light) == nullptr)
        return "job " + to_string(id) + ": its worker is gone";
    }
    if (job.ended && process(job.driver) != nullptr)
      return "job " + to_string(id) + " ended but its driver is kept";
  }
  if (dead_actors_.size() > options_.dead_actors || dead_jobs_.size() > options_.dead_jobs ||
      dead_nodes_.size() > options_.dead_nodes) {
    return "too many records of what has ended";
  }
  return {};
}

}  // namespace troupe::gcs
