// What travels between two stores on a connection of its own, after the proof of the token: one request, then
// chunks of the object until its end. Both machines are of one kind; numbers lie in memory order.
//
//   puller → source   PullRequest
//   source → puller   Head{size}, then Head{data} and its bytes, …, Head{end} or Head{failed} and its text
//   puller → source   after each chunk: the offset up to which it has the bytes (8 bytes)
//
// The source sends straight from the arena, so bytes on their way change if the memory is given to another
// object. What the puller may keep is what the source has seen acknowledged while it held the object:
// `confirmed`.
#pragma once

#include <cstdint>

#include "runtime/objects/object_id.h"

namespace troupe {

struct PullRequest {
  static constexpr std::uint32_t kVersion = 1;
  std::uint32_t version = kVersion;
  std::uint32_t cluster = 0;
  std::uint64_t node = 0, number = 0;
  std::uint64_t from = 0;  // the first byte that is wanted

  ObjectId id() const { return {cluster, {node}, number}; }
};

struct PullHead {
  enum Kind : std::uint32_t { size = 1, data = 2, end = 3, failed = 4 };
  std::uint32_t kind = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;      // that follow; of `size`: of the whole object. data may have none: still here
  std::uint64_t confirmed = 0;  // up to there the puller may keep what it has
};

inline constexpr std::uint64_t kPullChunk = 4 << 20;
inline constexpr std::uint64_t kPullAhead = 16;          // chunks that wait for their acknowledgement
inline constexpr std::uint64_t kLongestPullText = 4096;  // of a failure
inline constexpr int kPullKeepAliveMs = 2'000;           // a source that waits itself says so that often
inline constexpr int kPullSilenceMs = 10'000;            // then the other side is taken for gone

}  // namespace troupe
