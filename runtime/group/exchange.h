// How the ranks of one generation meet before they are connected, and how they compare notes when an
// operation does not end. The control plane implements it; so do files and pipes in tests.
//
// Owner: the communicator's maker; it outlives the communicator. Threads: the blocking functions are called
// by the communicator's thread, cancel() by any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "runtime/group/flight_recorder.h"

namespace troupe {

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Gives this rank's bytes and gets those of all ranks, by rank. Waits for all until the deadline (steady
  // nanoseconds) or cancel(). The error of a deadline names the missing ranks.
  virtual Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) = 0;

  // Ends a wait of this rank, now or to come, with `why`.
  virtual void cancel(const Error& why) = 0;

  // Publishes this rank's record and returns what is known of all, by rank. Called once, after a deadline
  // passed; waits no longer than `deadline_ns`. The default knows nothing of the others.
  virtual std::vector<RankReport> collect(const RankReport& mine, std::int64_t deadline_ns) {
    static_cast<void>(deadline_ns);
    return {mine};
  }
};

}  // namespace troupe
