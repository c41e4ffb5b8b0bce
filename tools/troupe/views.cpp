#include "tools/troupe/views.h"

#include <cstdio>

#include "core/base/ids.h"
#include "core/base/resources.h"

namespace troupe::tools {
namespace {

using nlohmann::json;

json amounts(capnp::List<wire::Amount>::Reader list) {
  auto out = json::object();
  for (auto one : list) {
    if (one.getUnits() % Resources::kOne == 0)
      out[one.getName().cStr()] = one.getUnits() / Resources::kOne;
    else
      out[one.getName().cStr()] = static_cast<double>(one.getUnits()) / Resources::kOne;
  }
  return out;
}

template <class List>
json plain(List list) {
  auto out = json::array();
  for (auto one : list) out.push_back(one);
  return out;
}

}  // namespace

const char* phase_name(wire::ActorPhase phase) {
  switch (phase) {
    case wire::ActorPhase::PENDING:
      return "pending";
    case wire::ActorPhase::STARTING:
      return "starting";
    case wire::ActorPhase::ALIVE:
      return "alive";
    case wire::ActorPhase::RESTARTING:
      return "restarting";
    case wire::ActorPhase::DEAD:
      return "dead";
  }
  return "unknown";
}

std::string actor_id_text(wire::ActorView::Reader actor) {
  return to_string(ActorId{actor.getState().getActor()});
}

std::string actor_note(wire::ActorView::Reader actor) {
  std::string note = actor.getWaiting().cStr();
  if (note.empty() && actor.getState().hasFailure()) note = actor.getState().getFailure().getMessage().cStr();
  return note.substr(0, note.find('\n'));
}

json to_json(wire::NodeView::Reader node) {
  return {{"node", node.getNode()},
          {"name", node.getName().cStr()},
          {"alive", node.getAlive()},
          {"address", node.getAddress().cStr()},
          {"host", node.getHostId().cStr()},
          {"pid", node.getPid()},
          {"total", amounts(node.getTotal())},
          {"free", amounts(node.getFree())},
          {"actors", node.getActors()},
          {"joined", node.getJoinedUnix()},
          {"reason", node.getReason().cStr()}};
}

json to_json(wire::JobView::Reader job) {
  return {{"job", job.getJob()},
          {"name", job.getName().cStr()},
          {"phase", job.getPhase().cStr()},
          {"pid", job.getPid()},
          {"host", job.getHostId().cStr()},
          {"actors", job.getActors()},
          {"started", job.getStartedUnix()},
          {"ended", job.getEndedUnix()},
          {"reason", job.getReason().cStr()}};
}

json to_json(wire::ActorView::Reader actor) {
  auto state = actor.getState();
  json out = {{"actor", actor_id_text(actor)},
              {"name", actor.getName().cStr()},
              {"class", state.getClassName().cStr()},
              {"phase", phase_name(state.getPhase())},
              {"incarnation", state.getIncarnation()},
              {"job", actor.getJob()},
              {"node", actor.getNode().cStr()},
              {"process", state.getEndpoint().getProcess()},
              {"pid", actor.getPid()},
              {"restarts", actor.getRestarts()},
              {"isolation", actor.getIsolation() == wire::Isolation::LIGHT ? "light" : "process"},
              {"resources", amounts(actor.getResources())},
              {"gpus", plain(actor.getGpus())},
              {"infeasible", state.getInfeasible()},
              {"waiting", actor.getWaiting().cStr()}};
  if (state.hasFailure()) out["failure"] = state.getFailure().getMessage().cStr();
  return out;
}

json to_json(wire::ClusterView::Reader cluster) {
  auto warnings = json::array();
  for (auto one : cluster.getWarnings()) warnings.push_back(one.cStr());
  return {{"address", cluster.getAddress().cStr()},
          {"head_pid", cluster.getHeadPid()},
          {"started", cluster.getStartedUnix()},
          {"version", cluster.getVersion().cStr()},
          {"store", cluster.getStoreState().cStr()},
          {"store_away_since", cluster.getStoreAwaySince()},
          {"nodes", list_to_json(cluster.getNodes())},
          {"jobs_running", cluster.getJobsRunning()},
          {"actors",
           {{"pending", cluster.getPending()},
            {"starting", cluster.getStarting()},
            {"alive", cluster.getAlive()},
            {"restarting", cluster.getRestarting()},
            {"dead", cluster.getDead()}}},
          {"warnings", warnings}};
}

void print_json(const json& value) {
  std::printf("%s\n", value.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

}  // namespace troupe::tools
