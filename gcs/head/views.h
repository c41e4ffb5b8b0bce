// What people and `troupe status` see of the control store.
#pragma once

#include "core/protocol/cluster.capnp.h"
#include "gcs/head/head_state.h"

namespace troupe::gcs {

void view_cluster(const HeadState& head, wire::ClusterView::Builder to);
void view_node(const ControlStore& core, NodeId id, wire::NodeView::Builder to);
void view_job(const ControlStore& core, JobId id, wire::JobView::Builder to);
void view_actor(const ControlStore& core, const ActorRecord& record, wire::ActorView::Builder to);

// All nodes, living ones first in the order they joined.
template <class Init>
void view_nodes(const ControlStore& core, Init&& init) {
  auto list = init(static_cast<unsigned>(core.nodes().size()));
  unsigned i = 0;
  for (bool dead : {false, true}) {
    for (const auto& [id, node] : core.nodes()) {
      if ((node.phase == NodePhase::dead) == dead) view_node(core, id, list[i++]);
    }
  }
}

}  // namespace troupe::gcs
