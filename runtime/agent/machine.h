// What this machine has. Any thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/resources.h"

namespace troupe {

// "cpu": those this process may run on; "memory": bytes of RAM, or the control group's limit if that is less;
// "gpu": devices /dev/nvidia0…, or those in CUDA_VISIBLE_DEVICES.
Resources detect_resources();

// CUDA_VISIBLE_DEVICES for a process that holds these GPU slots, given this process's own value of it (null:
// unset).
std::string devices_of(const std::vector<unsigned>& slots, const char* visible);

}  // namespace troupe
