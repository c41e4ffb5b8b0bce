// Who takes part in a generation of a group, as the head formed it. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
  std::uint64_t after = 0;  // the generation it was in; 0: none
  bool reform = false;      // members that are dead may be missing
  bool keep_order = false;  // ranks in the order of members, not by node
  std::uint32_t patience_ms = 0;
};

struct GroupPostRequest {
  std::uint64_t group = 0, generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t board = 0;  // each rank shows something on it once
  std::string bytes;
  std::uint32_t patience_ms = 0;
  bool partial = false;  // then what is there will do
};
using GroupPosted = std::function<void(Result<std::map<std::uint32_t, std::string>>)>;  // by rank

using GroupJoined = std::function<void(Result<GroupFormed>)>;
// The generation is over: `rank` of it is lost. At most once for each generation.
using GroupBroken = std::function<void(std::uint64_t generation, std::uint32_t rank, const Error& why)>;

}  // namespace troupe
