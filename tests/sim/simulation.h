// One run: a seed makes a cluster, a history and its faults; then calm, the end of all jobs, and the question
// whether everything came back.
//
// Thread: one; runs follow each other. The same seed and options give the same trace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {
class FaultPoint;
}

namespace troupe::sim {

struct RunOptions {
  std::uint64_t seed = 1;
  bool keep_trace = false;
  int check_every = 1;  // steps
  const FaultPoint* favourite =
      nullptr;  // fires often until it is calm; null: one that the seed draws may do so
};

struct Outcome {
  std::optional<std::string> violation;
  std::uint64_t hash = 0;  // of the trace
  std::uint64_t steps = 0;
  double seconds = 0;              // of simulated time
  std::vector<std::string> trace;  // when it was kept
  std::map<std::string, std::uint64_t> reached;
};

Outcome run_seed(const RunOptions& options);

}  // namespace troupe::sim
