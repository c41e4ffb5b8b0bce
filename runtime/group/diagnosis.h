// What the flight records of several ranks show: the first thing that keeps a group from going on. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/group/flight_recorder.h"

namespace troupe {

struct Finding {
  enum class Kind {
    dead,          // a rank has ended
    partitioned,   // a rank cannot be reached, or two ranks wait for each other's bytes
    missing_call,  // a rank has not called an operation that others wait in
    wrong_op,      // a rank called another operation
    wrong_dtype,
    wrong_size,
    swapped_order,  // a rank called two operations in the other order
    slow,           // a rank is behind, or began late
  };
  Kind kind = Kind::slow;
  std::vector<int> ranks;      // who is different
  std::uint64_t sequence = 0;  // of the collective; 0 where it is none
  std::string text;            // one sentence
};

const char* to_string(Finding::Kind kind);

// `reports`: at most one a rank, in any order; ranks that are missing are not judged. Nothing when they show
// no difference, or only one rank is known. The records' clocks may differ between ranks.
std::optional<Finding> diagnose(const std::vector<RankReport>& reports, int size);

}  // namespace troupe
