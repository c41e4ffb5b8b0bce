// How much memory processes and this machine use, read from /proc and the control group. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/agent/memory_policy.h"

namespace troupe {

// Bytes that are the process's own, and its children's, down to a bounded number of them: neither files nor
// shared memory. 0 when it has ended.
std::uint64_t private_memory(pid_t process);

// Of the machine, or of the control group where that leaves less.
MemoryReading::Machine machine_memory();

}  // namespace troupe
