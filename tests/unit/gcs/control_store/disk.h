// What a store would hold after the batches of a control store: lets a test restart the head.
#pragma once

#include <map>

#include "gcs/control_store/control_store.h"

namespace troupe::gcs {

class Disk {
 public:
  void write(const ControlStore& core, const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* persist = std::get_if<Persist>(&action.what)) write(core, *persist);
    }
  }

  Snapshot snapshot() const {
    Snapshot all;
    for (const auto& [id, node] : nodes_) all.nodes.push_back(node);
    for (const auto& [id, job] : jobs_) all.jobs.push_back(job);
    for (const auto& [id, actor] : actors_) all.actors.push_back(actor);
    for (int i = 0; i < kCounters; ++i) all.counters[i] = counters_[i];
    return all;
  }
  std::size_t actors() const { return actors_.size(); }

 private:
  void write(const ControlStore& core, const Persist& what) {
    switch (what.table) {
      case Table::nodes:
        nodes_.erase(what.id);
        if (const NodeRecord* r = core.node({what.id})) {
          nodes_[what.id] = {{what.id}, r->info, r->phase != NodePhase::dead, r->joined, r->reason};
        }
        break;
      case Table::jobs:
        jobs_.erase(what.id);
        if (const JobRecord* r = core.job({what.id})) {
          jobs_[what.id] = {r->info, r->driver, r->ended, r->started_at, r->ended_at, r->reason};
        }
        break;
      case Table::actors:
        actors_.erase(what.id);
        if (const ActorRecord* r = core.actor({what.id})) {
          actors_[what.id] = {r->spec, r->job,      r->incarnation, r->phase,  r->node, r->process,
                              r->gpus, r->restarts, r->failure,     r->served, r->home};
        }
        break;
      case Table::counters:
        counters_[what.id] = core.counter(static_cast<Counter>(what.id));
        break;
    }
  }

  std::map<std::uint64_t, StoredNode> nodes_;
  std::map<std::uint64_t, StoredJob> jobs_;
  std::map<std::uint64_t, StoredActor> actors_;
  std::uint64_t counters_[kCounters] = {};
};

}  // namespace troupe::gcs
