// What a standby head does until its time has come. Thread: main.
#pragma once

#include <string>

#include "core/os/fd.h"
#include "gcs/store/redis_url.h"

namespace troupe::tools {

// Waits until no other head holds the state folder's lock; nothing when this command was asked to end.
UniqueFd wait_for_state(const std::string& state, int lifeline);
// Waits until no head keeps the lease in that Redis; false when this command was asked to end.
bool wait_for_lease(const gcs::RedisAddress& address, int lifeline);

}  // namespace troupe::tools
