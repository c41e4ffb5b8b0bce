// The eight bytes before every frame, in a ring as on TCP: length in the lower half, flags in the upper half
// of one little-endian 64-bit word. It is read with one load, because the other side of a ring may change it
// at any time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace troupe {

static_assert(std::endian::native == std::endian::little, "frames are little-endian on the wire");

inline constexpr std::size_t kFrameHeader = 8;

enum FrameFlags : std::uint32_t {
  kWhole = 0,  // a whole frame, or the last fragment of one
  kMore = 1,   // a fragment; the next one belongs to the same frame
  kSkip = 2,   // ring only: nothing up to the end of the ring
};

struct FrameHeader {
  std::uint32_t length = 0;  // of the payload, a multiple of 8
  std::uint32_t flags = 0;
};

inline void store_header(std::byte* at, FrameHeader header) {
  std::uint64_t word = std::uint64_t{header.flags} << 32 | header.length;
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(at), word, __ATOMIC_RELAXED);
}

inline FrameHeader load_header(const std::byte* at) {
  std::uint64_t word = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_RELAXED);
  return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
}

}  // namespace troupe
