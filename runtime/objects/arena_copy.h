// Copies into the arena, and maps what this process has not mapped yet ahead of the copy.
//
// Any thread; different threads copy to different places.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

class ArenaCopy {
 public:
  static constexpr std::uint64_t kPiece = 64 << 10;

  explicit ArenaCopy(std::uint64_t capacity) : mapped_(capacity / kPiece + 1) {}

  // To `base` + `to`.
  void copy(std::byte* base, std::uint64_t to, std::span<const std::byte> from);

 private:
  bool is_mapped(std::uint64_t piece) const { return mapped_[piece].load(std::memory_order_relaxed); }
  void map(std::byte* base, std::uint64_t first, std::uint64_t end);

  std::vector<std::atomic<bool>> mapped_;  // pieces that this process has written to
};

}  // namespace troupe
