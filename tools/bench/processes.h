// What the processes of the benchmark's cluster use. Main thread.
#pragma once

#include <set>
#include <string>

namespace troupe::bench {

// All that descend from the process that started the cluster; with a name only those called so.
std::set<int> cluster_processes(const std::string& name = "");
// Proportional set size, so that shared pages count once.
double pss_bytes(const std::set<int>& processes = cluster_processes());
double cpu_seconds();  // of the whole cluster, since its start

}  // namespace troupe::bench
