// Dispatch, durable numbers, persistence and the limits of the control store.
#include "gcs/control_store/control_store.h"

#include <algorithm>

namespace troupe::gcs {

const char* to_string(Phase phase) {
  constexpr const char* kNames[] = {"pending", "starting", "alive", "restarting", "dead"};
  return kNames[static_cast<int>(phase)];
}

const char* to_string(Table table) {
  constexpr const char* kNames[] = {"nodes", "jobs", "actors", "counters"};
  return kNames[static_cast<int>(table)];
}

ControlStore::ControlStore(Options options) : options_(options) {}

void ControlStore::apply(Event event, Time now, Actions& out) {
  now_ = std::max(now_, now);
  ++events_;
  std::visit([&](auto& e) { on(e, out); }, event);
  doom_the_doomed(out);
  last_told_ = {};
  settle(out);
  trim(out);
}

std::optional<Time> ControlStore::wake_at() const {
  std::optional<Time> at;
  if (!wakes_.empty()) at = wakes_.begin()->first;
  if (!deadlines_.empty()) at = at ? std::min(*at, *deadlines_.begin()) : *deadlines_.begin();
  return at;
}

void ControlStore::on(Acknowledge& e, Actions& out) { reply(e.request, Done{}, turn_, out); }

void ControlStore::on(Tick&, Actions& out) {
  while (!wakes_.empty() && wakes_.begin()->first <= now_) {
    ActorId id = wakes_.begin()->second;
    wakes_.erase(wakes_.begin());
    auto at = actors_.find(id);
    if (at != actors_.end()) {
      ActorRecord& record = at->second;
      bool due = record.phase == Phase::restarting && record.wake_at != 0 && record.wake_at <= now_;
      if (due && !record.node) enqueue(record);
      continue;
    }
    auto waiting = waiters_.find(id);
    if (waiting == waiters_.end()) continue;
    ActorState state{id, 0, Phase::dead, false, nullptr, nullptr, nullptr};
    state.failure = std::make_shared<Error>(
        ErrorKind::actor_died,
        "actor " + to_string(id) + " is not known: it was never spawned or ended long ago");
    for (const Waiter& waiter : waiting->second) reply(waiter.request, state, turn_, out);
    waiters_.erase(waiting);
  }
  if (!deadlines_.empty() && *deadlines_.begin() <= now_) forget_awaited(out);
}

void ControlStore::on(Shutdown& e, Actions& out) {
  std::vector<JobId> jobs;
  for (const auto& [id, job] : jobs_) jobs.push_back(id);
  for (JobId id : jobs) {
    end_job(id, "the cluster was shut down", out);
    auto why = std::make_shared<Error>(ErrorKind::cancelled, "the cluster was shut down");
    jobs_.at(id).actors.each([&](ActorRecord& record) { doomed_.push_back({record.spec->actor, why}); });
    doom_the_doomed(out);
  }
  std::vector<NodeId> nodes;
  for (const auto& [id, node] : nodes_) {
    if (node.phase != NodePhase::dead) nodes.push_back(id);
  }
  for (NodeId id : nodes) {
    if (nodes_.at(id).phase == NodePhase::alive) {
      out.push_back({turn_, ShutdownNode{id, "the cluster was shut down"}});
    }
    lose_node(id, "the cluster was shut down", out);
  }
  reply(e.request, Done{}, turn_, out);
}

// Numbers are reserved in blocks: the limit is durable before any number below it is answered or used in a
// command.
std::uint64_t ControlStore::next_id(Counter counter, Actions& out) {
  int i = static_cast<int>(counter);
  if (next_[i] == limits_[i]) {
    limits_[i] += options_.id_block;
    persist(Table::counters, static_cast<std::uint64_t>(i), out);
  }
  return next_[i]++;
}

void ControlStore::persist(Table table, std::uint64_t id, Actions& out) {
  if (table == Table::actors) {
    auto at = actors_.find({id});
    if (at != actors_.end()) return persist(at->second, out);
  }
  out.push_back({turn_, Persist{table, id}});
}

void ControlStore::persist(ActorRecord& record, Actions& out) {
  if (record.written == turn_) return;
  record.written = turn_;
  out.push_back({turn_, Persist{Table::actors, record.spec->actor.value}});
}

void ControlStore::reply(RequestId request, Answer answer, Turn after, Actions& out) {
  if (request != 0) out.push_back({after, Reply{request, std::move(answer)}});
}

void ControlStore::trim(Actions& out) {
  while (dead_actors_.size() > options_.dead_actors) {
    ActorId id = dead_actors_.front();
    dead_actors_.pop_front();
    actors_.erase(id);
    --counts_[static_cast<int>(Phase::dead)];
    persist(Table::actors, id.value, out);
  }
  while (dead_jobs_.size() > options_.dead_jobs) {
    JobId id = dead_jobs_.front();
    dead_jobs_.pop_front();
    jobs_.erase(id);
    persist(Table::jobs, id.value, out);
  }
  while (dead_nodes_.size() > options_.dead_nodes) {
    NodeId id = dead_nodes_.front();
    dead_nodes_.pop_front();
    nodes_.erase(id);
    persist(Table::nodes, id.value, out);
  }
}

const ActorRecord* ControlStore::actor(ActorId id) const {
  auto at = actors_.find(id);
  return at == actors_.end() ? nullptr : &at->second;
}

const NodeRecord* ControlStore::node(NodeId id) const {
  auto at = nodes_.find(id);
  return at == nodes_.end() ? nullptr : &at->second;
}

const JobRecord* ControlStore::job(JobId id) const {
  auto at = jobs_.find(id);
  return at == jobs_.end() ? nullptr : &at->second;
}

const ProcessRecord* ControlStore::process(ProcessId id) const {
  auto at = processes_.find(id);
  return at == processes_.end() ? nullptr : &at->second;
}

bool ControlStore::wants(const Place& place) const {
  const ActorRecord* record = actor(place.spec->actor);
  return record != nullptr && record->incarnation == place.incarnation && record->node == place.node &&
         record->process == place.process && !record->ending;
}

ActorId ControlStore::named(const std::string& name) const {
  auto at = names_.find(name);
  return at == names_.end() ? ActorId{} : at->second;
}

NodeId ControlStore::node_named(const std::string& name) const {
  for (const auto& [id, node] : nodes_) {
    if (node.phase != NodePhase::dead && node.info.name == name) return id;
  }
  return {};
}

}  // namespace troupe::gcs
