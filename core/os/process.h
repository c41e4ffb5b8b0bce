// Starting, describing and finding processes of the operating system. Any thread; a child's death signal
// comes when the thread that started it ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace troupe {

struct SpawnOptions {
  std::string executable;                // a path; PATH is not searched
  std::vector<std::string> arguments;    // argv, with the program's name first
  std::vector<std::string> environment;  // NAME=value, the whole of it
  std::string directory;                 // empty: this process's own
  std::vector<std::pair<int, int>> fds;  // from → to, besides 0, 1 and 2; all others must be close-on-exec
  bool new_group = true;
  int death_signal = 0;  // sent to it when the starting thread ends
};

// Starts it without copying this process's memory. Errors tell whether the process or its program could not
// start.
Result<pid_t> spawn_process(const SpawnOptions& options);

// "exited with status 3", "was killed by signal 9 (SIGKILL)".
std::string describe_exit(int wait_status);

// The executable that a shell would run for `program`; not_found names it.
Result<std::string> find_program(const std::string& program);

// This process's own executable, also when it has been replaced on disk.
std::string own_executable();

// Living children of this process, found in /proc.
std::vector<pid_t> children_of_this_process();
// Kills and reaps all children but `keep`, and what they leave behind to this process as their reaper.
void kill_children_except(const std::vector<pid_t>& keep);

int threads_of_this_process();

// This process's environment, overlaid with `over`, without the variables named in `without`.
std::vector<std::string> overlay_environment(const std::vector<std::string>& over,
                                             const std::vector<std::string>& without);

}  // namespace troupe
