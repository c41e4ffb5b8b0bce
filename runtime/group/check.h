// The check that every collective begins with: each rank tells all others what it calls, so that ranks that
// do not agree all fail with the same error, instead of waiting for each other or mixing their bytes. The
// sizes of gathers and scatters travel with it. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "runtime/group/operation.h"

namespace troupe {

// Lies at the head of a rank's message; elements of small operations follow it in the same message.
struct CheckHeader {
  static constexpr int kDims = 6;
  // What follows the header.
  static constexpr std::uint8_t kFault = 1;     // a text: the call is wrong on this rank
  static constexpr std::uint8_t kCounts = 2;    // the send counts of an all_to_all, 8 bytes a rank
  static constexpr std::uint8_t kElements = 4;  // the rank's elements

  std::uint64_t sequence = 0;
  OpKind kind = OpKind::barrier;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t flags = 0;
  std::int32_t root = 0;
  std::int32_t dims = -1;  // of the tensor whose shape must agree; -1: none
  std::uint32_t payload = 0;
  std::int64_t in_count = -1;   // elements; -1: gives nothing
  std::int64_t out_count = -1;  // elements; -1: takes nothing
  std::int64_t shape[kDims] = {};
};
static_assert(sizeof(CheckHeader) == 24 + 2 * 8 + CheckHeader::kDims * 8);

CheckHeader header_of(const Operation& operation, std::uint64_t sequence, int rank);

// One rank's message: the header and what follows it.
struct Contribution {
  CheckHeader header;
  std::span<const std::byte> payload;
};

// What all of them fail with, or nothing. `contributions` by rank; for send and recv the two ranks'.
std::optional<Error> check(const std::vector<Contribution>& contributions);
std::optional<Error> check_message(const Contribution& sender, int from, const Contribution& receiver,
                                   int to);

// Of an all_to_all: how many elements `from` sends to `to`.
std::int64_t count_between(const std::vector<Contribution>& contributions, int from, int to);

}  // namespace troupe
