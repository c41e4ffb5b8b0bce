// Who takes part in a generation of a group, as the head formed it. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace troupe {

struct GroupRank {
  ActorId actor;
  std::uint32_t incarnation = 0;
  ProcessId process;
  NodeId node;
  std::string address;  // what the backend needs to reach it

  bool operator==(const GroupRank&) const = default;
};

struct GroupFormed {
  std::uint64_t generation = 0;
  std::vector<GroupRank> ranks;
};

struct GroupJoinRequest {
  std::uint64_t group = 0;
  std::vector<ActorId> members;  // as the group was made
  ActorId actor;                 // this rank
  std::uint32_t incarnation = 0;
  std::string address;
  std::uint64_t after = 0;  // the generation it was in; 0: none
  bool reform = false;      // members that are dead may be missing
  bool keep_order = false;  // ranks in the order of members, not by node
  std::uint32_t patience_ms = 0;
};

using GroupJoined = std::function<void(Result<GroupFormed>)>;
// The generation is over: `rank` of it is lost. At most once for each generation.
using GroupBroken = std::function<void(std::uint64_t generation, std::uint32_t rank, const Error& why)>;

}  // namespace troupe
