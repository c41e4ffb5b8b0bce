// Membership of nodes.
#include <algorithm>

#include "gcs/control_store/control_store.h"

namespace troupe::gcs {
namespace {

bool same_agent(const NodeInfo& known, const NodeInfo& joining) {
  bool named = joining.name.empty() || joining.name == known.name;
  return named && known.host_id == joining.host_id && known.pid == joining.pid;
}

}  // namespace

void ControlStore::on(NodeJoin& e, Actions& out) {
  NodeInfo& info = e.info;
  for (auto& [id, node] : nodes_) {
    if (node.phase == NodePhase::dead) continue;
    bool same = same_agent(node.info, info);
    // An agent that never heard of this number, since the answer was lost, runs what belongs to an earlier
    // one.
    bool knows = !e.was || e.was == id;
    if (same && knows && node.phase == NodePhase::awaited) {
      info.name = node.info.name;
      reply(e.request, NodeJoined{id, node.info.name, true}, turn_, out);  // before the commands to it
      return_node(id, node, e, out);
      return;
    }
    if (info.name.empty() ? !same : node.info.name != info.name) continue;
    if (!same && node.phase == NodePhase::alive) {
      reply(e.request,
            Error(ErrorKind::already_exists,
                  "a node named " + info.name + " is in the cluster; choose another name"),
            0, out);
      return;
    }
    // The same agent over a new connection, or its successor under the same name: the old node is gone.
    lose_node(id, same ? "it connected anew" : "another agent took its name", out);
    doom_the_doomed(out);
    break;
  }
  NodeId id{next_id(Counter::node, out)};
  if (info.name.empty()) {
    info.name = "node-" + to_string(id);
    while (node_named(info.name)) info.name += "x";
  }
  NodeRecord node;
  node.info = std::move(info);
  node.joined = now_;
  placement_.add_node(id, node.info.name, node.info.resources, true);
  persist(Table::nodes, id.value, out);
  reply(e.request, NodeJoined{id, node.info.name}, turn_, out);
  nodes_.emplace(id, std::move(node));
}

void ControlStore::on(NodeLost& e, Actions& out) { lose_node(e.node, e.reason, out); }

void ControlStore::on(NodeReturnFailed& e, Actions&) {
  auto at = nodes_.find(e.node);
  if (at == nodes_.end() || at->second.phase != NodePhase::alive) return;
  at->second.phase = NodePhase::awaited;
  at->second.deadline = now_ + options_.grace;
  deadlines_.insert(at->second.deadline);
  placement_.set_open(e.node, false);
}

void ControlStore::on(NodeRemove& e, Actions& out) {
  NodeId id = node_named(e.name);
  if (!id) {
    reply(e.request, Error(ErrorKind::not_found, "no node named " + e.name), turn_, out);
    return;
  }
  if (nodes_.at(id).phase == NodePhase::alive) out.push_back({turn_, ShutdownNode{id, "it was removed"}});
  lose_node(id, "it was removed", out);
  reply(e.request, Done{"node " + e.name}, turn_, out);
}

void ControlStore::on(NodeDrain& e, Actions& out) {
  NodeId id = node_named(e.name);
  if (!id) {
    reply(e.request, Error(ErrorKind::not_found, "no node named " + e.name), turn_, out);
    return;
  }
  NodeRecord& node = nodes_.at(id);
  node.draining = e.on;
  if (node.phase == NodePhase::alive) placement_.set_open(id, !e.on);
  reply(e.request, Done{"node " + e.name}, 0, out);
}

void ControlStore::lose_node(NodeId id, const std::string& reason, Actions& out) {
  auto at = nodes_.find(id);
  if (at == nodes_.end() || at->second.phase == NodePhase::dead) return;
  NodeRecord& node = at->second;
  node.phase = NodePhase::dead;
  node.deadline = 0;
  node.reason = reason;
  persist(Table::nodes, id.value, out);
  out.push_back({turn_, NodeGone{id}});  // before what takes the place of its actors
  auto why =
      std::make_shared<Error>(ErrorKind::actor_died, "node " + node.info.name + " was lost: " + reason);
  why->node = id;
  for (ProcessId process : std::set(node.processes)) process_over(process, why, out);
  for (JobId job : node.jobs) {
    auto found = jobs_.find(job);
    if (found != jobs_.end()) found->second.nodes.erase(id);
  }
  node.jobs.clear();
  placement_.remove_node(id);
  dead_nodes_.push_back(id);
}

// The agent lived on while the head was away. It is told again what it should host, and what not; it answers
// with what became of it, so nothing else needs to be compared.
void ControlStore::return_node(NodeId id, NodeRecord& node, NodeJoin& join, Actions& out) {
  node.phase = NodePhase::alive;
  node.deadline = 0;
  node.info.address = join.info.address;
  placement_.set_open(id, !node.draining);
  std::set<JobId> leased = node.jobs;
  // A job without a lease there left no trace in the store, but its zygote may run.
  for (JobId job_id : join.jobs) {
    if (leased.count(job_id) > 0) continue;
    auto found = jobs_.find(job_id);
    if (found == jobs_.end() || found->second.ended) {
      out.push_back({turn_, EndJob{id, job_id}});
    } else {
      node.jobs.insert(job_id);
      found->second.nodes[id].started = true;
    }
  }
  for (JobId job_id : leased) {
    auto found = jobs_.find(job_id);
    if (found == jobs_.end()) continue;
    JobRecord& job = found->second;
    bool wanted = false;
    job.actors.each([&](ActorRecord& record) {
      wanted |= record.node == id && (record.phase == Phase::starting || record.phase == Phase::alive);
    });
    if (!wanted) {
      end_job_on(id, job_id, out);
      continue;
    }
    job.nodes[id].started = false;
    start_job(id, job_id, out);
    job.actors.each([&](ActorRecord& record) {
      if (record.node != id) return;
      if (record.phase == Phase::starting || record.phase == Phase::alive) {
        send_place(record, out);
      } else {
        record.ending = false;
        order_destroy(record, out);
      }
    });
  }
}

void ControlStore::forget_awaited(Actions& out) {
  deadlines_.erase(deadlines_.begin(), deadlines_.upper_bound(now_));
  std::vector<NodeId> nodes;
  for (const auto& [id, node] : nodes_) {
    if (node.phase == NodePhase::awaited && node.deadline <= now_) nodes.push_back(id);
  }
  for (NodeId id : nodes) lose_node(id, "it did not come back after the head's restart", out);
  std::vector<JobId> jobs;
  for (const auto& [id, job] : jobs_) {
    if (job.awaited && job.deadline <= now_) jobs.push_back(id);
  }
  for (JobId id : jobs) end_job(id, "its driver did not come back after the head's restart", out);
}

}  // namespace troupe::gcs
