#include "runtime/objects/arena_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace troupe {
namespace {

constexpr std::uint64_t kAtOnce = 4 << 20, kHelped = 64 << 20;

}  // namespace

void ArenaCopy::map(std::byte* base, std::uint64_t first, std::uint64_t end) {
  // A read maps many pages that are there at a time, a write one by one; fresh ones cost the same.
  ::madvise(base + first * kPiece, (end - first) * kPiece, MADV_POPULATE_READ);
  for (; first < end; ++first) mapped_[first].store(true, std::memory_order_relaxed);
}

// Faults one by one cost more than the copy, so what is new is mapped first, and copied while it is in the
// caches; what is mapped goes in one copy, since large ones bypass the caches.
void ArenaCopy::copy(std::byte* base, std::uint64_t begin, std::span<const std::byte> from) {
  if (from.empty()) return;
  std::uint64_t end = begin + from.size();
  std::thread helper;
  // Large: another thread maps from the end, until it meets what is mapped.
  if (from.size() >= kHelped && !is_mapped((end - 1) / kPiece)) {
    auto help = [this, base, low = begin / kPiece, high = (end - 1) / kPiece + 1]() mutable {
      while (high > low && !is_mapped(high - 1)) {
        std::uint64_t first = high - std::min(high - low, kAtOnce / kPiece);
        map(base, first, std::exchange(high, first));
      }
    };
    try {
      helper = std::thread(help);
    } catch (const std::system_error&) {  // no thread to be had: the copy maps it all
    }
  }
  for (std::uint64_t to = begin; to < end;) {
    std::uint64_t first = to / kPiece, piece = first, stop = to;
    bool known = is_mapped(first);
    while (stop < end && is_mapped(piece) == known && (known || stop - to < kAtOnce))
      stop = std::min(++piece * kPiece, end);
    if (!known) map(base, first, piece);
    std::memcpy(base + to, from.data() + (to - begin), stop - to);
    to = stop;
  }
  if (helper.joinable()) helper.join();
}

}  // namespace troupe
