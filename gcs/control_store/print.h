// Actions as text, one line each, for transcripts and traces.
#pragma once

#include <string>

#include "gcs/control_store/actions.h"

namespace troupe::gcs {

std::string print(const Action& action);
std::string print(const ActorState& state);

}  // namespace troupe::gcs
