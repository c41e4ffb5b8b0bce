// The head's views as JSON. Amounts are plain numbers; times are Unix seconds.
#pragma once

#include <nlohmann/json.hpp>

#include "core/protocol/cluster.capnp.h"

namespace troupe::tools {

nlohmann::json to_json(wire::NodeView::Reader node);
nlohmann::json to_json(wire::JobView::Reader job);
nlohmann::json to_json(wire::ActorView::Reader actor);
nlohmann::json to_json(wire::ClusterView::Reader cluster);

const char* phase_name(wire::ActorPhase phase);
std::string actor_id_text(wire::ActorView::Reader actor);
// Why it waits, died or is restarting; one line.
std::string actor_note(wire::ActorView::Reader actor);

template <class List>
nlohmann::json list_to_json(List list) {
  auto out = nlohmann::json::array();
  for (auto one : list) out.push_back(to_json(one));
  return out;
}

// Prints it; text that is not UTF-8 is mended, never an error.
void print_json(const nlohmann::json& value);

}  // namespace troupe::tools
