// How ranks tell each other what they call: an all-gather of one small message a rank in log2(ranks) rounds.
// Elements of small operations ride along, so that these need no other message.
//
// Owner and thread: the communicator's. Keeps one piece of memory for all exchanges.
#pragma once

#include <memory>
#include <vector>

#include "runtime/group/check.h"
#include "runtime/group/mesh.h"

namespace troupe {

class Agreement {
 public:
  // Each rank gets the elements of all, so the more ranks, the less each may add.
  static constexpr std::size_t kMostBytes = 32 << 10, kMostBytesOfAll = 128 << 10;

  Agreement(Mesh& mesh, int rank, int size);

  // Elements of at most so many bytes ride along.
  std::size_t small() const { return small_; }

  // What all ranks say, by rank; valid until the next call. False: the mesh has failed.
  bool exchange(const CheckHeader& header, std::span<const std::byte> payload,
                std::vector<Contribution>& all);
  // Between two ranks. `order`: the how many-th message from `from` to `to`, one of which this rank is.
  bool exchange(std::uint64_t order, int from, int to, const CheckHeader& header,
                std::span<const std::byte> payload, Contribution& theirs);

  // Tags of an operation's elements. Those of messages, and those of the exchanges themselves, are others.
  static std::uint64_t tag(std::uint64_t sequence) { return sequence << 2 | 1; }
  static std::uint64_t message_tag(std::uint64_t order) { return 1ull << 63 | order << 2 | 2; }

 private:
  std::size_t write(std::size_t at, const CheckHeader& header, std::span<const std::byte> payload);
  // The contribution at that place; moves the place behind it. False: it is none.
  bool read(std::size_t& at, std::size_t end, std::uint64_t sequence, Contribution& out);
  bool broken(int peer);

  Mesh& mesh_;
  const int rank_, size_;
  const std::size_t small_, block_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Mesh::Buffer> buffer_;
};

}  // namespace troupe
