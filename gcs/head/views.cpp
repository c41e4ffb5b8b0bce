#include "gcs/head/views.h"

#include <unistd.h>

#include <ctime>

#include "core/control/kj_error.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {
namespace {

constexpr std::size_t kMostWarnings = 20;

// Unix seconds; 0: the store is ready.
std::int64_t away_since(const HeadState& head) {
  auto away = head.store().away();
  return away ? (head.now() - away->count()) / 1000 : 0;
}

std::string clock_text(std::int64_t unix_seconds) {
  std::time_t at = unix_seconds;
  std::tm parts{};
  localtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%F %T", &parts);
  return text;
}

std::vector<std::string> warnings_of(const HeadState& head) {
  std::vector<std::string> all;
  if (std::int64_t since = away_since(head); since != 0) {
    all.push_back("the store is away since " + clock_text(since) +
                  "; calls and listings go on, spawns and kills wait");
  }
  if (head.quarantined() != 0) {
    all.push_back(std::to_string(head.quarantined()) +
                  " records could not be read; they lie in troupe:quarantine");
  }
  std::size_t infeasible = 0;
  for (const auto& [id, record] : head.core().actors()) {
    if (!record.infeasible) continue;
    if (++infeasible <= kMostWarnings) {
      all.push_back("actor " + to_string(id) + " (" + record.spec->class_name +
                    "): " + head.core().waiting_reason(record));
    }
  }
  if (infeasible > kMostWarnings) {
    all.push_back(std::to_string(infeasible - kMostWarnings) + " more actors cannot be placed on any node");
  }
  return all;
}

}  // namespace

void view_node(const ControlStore& core, NodeId id, wire::NodeView::Builder to) {
  const NodeRecord& node = *core.node(id);
  to.setNode(id.value);
  to.setName(text(node.info.name));
  to.setAlive(node.phase == NodePhase::alive);
  to.setLost(node.phase == NodePhase::dead);
  to.setAddress(text(node.info.address));
  to.setHostId(text(node.info.host_id));
  to.setPid(node.info.pid);
  if (!node.info.objects_path.empty()) to.setObjectsPath(text(node.info.objects_path));
  to.setObjectsPort(node.info.objects_port);
  to.setActors(core.placement().live(id));
  to.setJoinedUnix(node.joined / 1000);
  std::string reason = node.reason;
  if (node.phase == NodePhase::awaited) reason = "has not come back yet after the head's restart";
  if (node.phase == NodePhase::alive && node.draining) reason = "draining";
  to.setReason(text(reason));
  const NodeSlots* slots = core.placement().node(id);
  write_amounts([&](unsigned n) { return to.initTotal(n); }, slots ? slots->total() : node.info.resources);
  // Of a node that is gone nothing is free, whatever is still to be given back there.
  if (slots != nullptr && node.phase == NodePhase::alive) {
    write_amounts([&](unsigned n) { return to.initFree(n); }, slots->free());
  }
}

void view_job(const ControlStore& core, JobId id, wire::JobView::Builder to) {
  const JobRecord& job = *core.job(id);
  to.setJob(id.value);
  to.setName(text(job.info.name));
  to.setPhase(!job.ended ? "running" : job.live != 0 ? "detached" : "ended");
  to.setPid(job.info.pid);
  to.setHostId(text(job.info.host_id));
  to.setActors(job.live);
  to.setStartedUnix(job.started_at / 1000);
  to.setEndedUnix(job.ended_at / 1000);
  to.setReason(text(job.awaited ? std::string("its driver has not come back yet after the head's restart")
                                : job.reason));
}

void view_actor(const ControlStore& core, const ActorRecord& record, wire::ActorView::Builder to) {
  write(to.initState(), core.state_of(record));
  to.setJob(record.job.value);
  to.setName(text(record.spec->name));
  if (const NodeRecord* node = core.node(record.node)) to.setNode(text(node->info.name));
  if (record.endpoint) to.setPid(record.endpoint->pid);
  to.setRestarts(record.restarts);
  to.setIsolation(wire_isolation(record.spec->isolation));
  write_amounts([&](unsigned n) { return to.initResources(n); }, record.spec->resources);
  auto gpus = to.initGpus(static_cast<unsigned>(record.gpus.size()));
  for (unsigned i = 0; i < gpus.size(); ++i) gpus.set(i, record.gpus[i]);
  to.setWaiting(text(core.waiting_reason(record)));
}

void view_cluster(const HeadState& head, wire::ClusterView::Builder to) {
  const ControlStore& core = head.core();
  to.setHeadPid(getpid());
  to.setAddress(text(head.options().address));
  to.setVersion(text(head.options().version));
  to.setStartedUnix(head.started() / 1000);
  to.setStoreState(text(head.store().state()));
  to.setStoreAwaySince(away_since(head));
  view_nodes(core, [&](unsigned n) { return to.initNodes(n); });
  unsigned running = 0;
  for (const auto& [id, job] : core.jobs()) running += !job.ended;
  to.setJobsRunning(running);
  auto count = [&](Phase phase) { return static_cast<std::uint32_t>(core.count(phase)); };
  to.setPending(count(Phase::pending));
  to.setStarting(count(Phase::starting));
  to.setAlive(count(Phase::alive));
  to.setRestarting(count(Phase::restarting));
  to.setDead(count(Phase::dead));
  std::vector<std::string> warnings = warnings_of(head);
  auto list = to.initWarnings(static_cast<unsigned>(warnings.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, text(warnings[i]));
}

}  // namespace troupe::gcs
