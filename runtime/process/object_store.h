// How a process finds the object store of its node: a worker in its agent's folder, a driver by asking the
// head for a node on the same machine.
#pragma once

#include "core/auth/token.h"
#include "core/control/loop.h"
#include "runtime/process/participant.h"

namespace troupe {

// On the control thread.
void use_worker_store(ControlLoop& loop, const Token& token, const std::string& socket_dir);
void use_driver_store(ControlLoop& loop, const Token& token, Participant& participant);
void leave_store();

}  // namespace troupe
