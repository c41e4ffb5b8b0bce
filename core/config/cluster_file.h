// The file $TROUPE_HOME/cluster: where the user's current cluster is. Written by `troupe head`, removed at
// its end. Any thread; several processes may read while one writes.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/base/error.h"

namespace troupe {

struct ClusterFile {
  std::string address;  // as in parse_address
  pid_t head_pid = 0;
  std::string host_id;  // of the head; the pid means nothing elsewhere
  std::string state;    // the head's state folder

  // False only when it is certain that the head has ended.
  bool head_may_run() const;
};

Result<void> write_cluster_file(const std::string& home, const ClusterFile& file);
// not_found when there is none, invalid_argument when it is damaged.
Result<ClusterFile> read_cluster_file(const std::string& home);
// Removes the file if it still names this head.
void remove_cluster_file(const std::string& home, pid_t head_pid);

}  // namespace troupe
