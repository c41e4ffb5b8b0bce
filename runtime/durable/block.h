// The journal's bytes. A block is what one write appends and one sync makes durable: a header with a
// checksum, then records, one for each call. The next block is written only when this one is durable, so a
// damaged block with a sound one after it is damage, while a damaged one at the end is a write that was cut
// off.
//
// Pure: no I/O. Any thread. Values lie in memory order: a journal is read by the executable that wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"

namespace troupe {

using Bytes = std::vector<std::byte>;

// One call as it lies in the journal.
struct CallRecord {
  std::uint64_t caller = 0;    // process and lane (caller_id); 0: nobody who repeats it
  std::uint64_t sequence = 0;  // the caller's number of the call
  std::uint64_t floor = 0;     // the caller has its answers to all calls below
  std::uint16_t method = 0;
  bool one_way = false;
  std::span<const std::byte> args;
};

inline constexpr std::size_t kBlockHeader = 40;
inline constexpr std::size_t kRecordHeader = 32;

// Builds a block: starts with room for the header, then gathers records.
class BlockBuilder {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return bytes_.size(); }
  std::uint32_t count() const { return count_; }
  void add(const CallRecord& record);
  // The finished block, whose first record has the position `first`; the builder is empty afterwards.
  Bytes finish(std::uint64_t first);

 private:
  Bytes bytes_;
  std::uint32_t count_ = 0;
};

struct BlockView {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  std::span<const std::byte> records;
  std::size_t size = 0;  // with header and padding
};

// The block at the beginning of `from`, if it is sound.
std::optional<BlockView> read_block(std::span<const std::byte> from);
// Takes the next record off the front; false when there is none that is sound.
bool next_record(std::span<const std::byte>& from, CallRecord& to);

struct Scan {
  std::vector<BlockView> blocks;
  std::size_t sound = 0;   // bytes up to what was cut off
  std::uint64_t last = 0;  // position of the last record
};
// The blocks of a journal that continues at position `base` + 1. What is cut off at the end is left out;
// damage before that is an error.
Result<Scan> scan_blocks(std::span<const std::byte> image, std::uint64_t base);

// The position of a finished block's first record.
std::uint64_t block_first(const Bytes& block);

// The checksum of files and blocks.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace troupe
