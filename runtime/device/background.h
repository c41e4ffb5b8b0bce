// One thread of a process for what may take long and nobody waits for: giving back device memory for which
// another process was the last user, idle page-locked memory. It is started by the first post and lives to
// the end of the process. Any thread.
#pragma once

#include <chrono>
#include <functional>

namespace troupe {

// `work` must not throw. Bounded by what posts it: one for each exported tensor, one for each pool.
void in_background(std::function<void()> work, std::chrono::milliseconds after = {});

}  // namespace troupe
