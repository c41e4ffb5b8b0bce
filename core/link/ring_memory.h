// The shared memory of a ring link: a sealed memfd of a fixed layout.
// Layout: 4096 bytes of control (RingControl of the creator's outgoing ring, then of the joiner's), data of
// the first ring, data of the second. The capacity follows from the size alone; nothing in the memory is
// trusted for it.
#pragma once

#include "core/base/error.h"
#include "core/link/ring.h"
#include "core/os/fd.h"
#include "core/os/mapping.h"

namespace troupe {

inline constexpr std::size_t kDefaultRing = 256u
                                            << 10;  // each direction; pages are committed as they are used
inline constexpr std::size_t kSmallestRing = 4u << 10;
inline constexpr std::size_t kLargestRing = 64u << 20;

// A memfd with room for two rings of `ring_bytes` (a power of two), sealed: it can neither shrink nor grow,
// so no peer can take the memory away under a reader. Any thread.
Result<UniqueFd> create_ring_memory(std::size_t ring_bytes = kDefaultRing);

struct RingMemory {
  Mapping mapping;
  std::size_t capacity = 0;  // of each ring

  // Checks size and seals of a descriptor that may come from another process, and maps it.
  static Result<RingMemory> map(const UniqueFd& fd);

  RingControl* control(int ring) const { return reinterpret_cast<RingControl*>(mapping.data()) + ring; }
  std::byte* data(int ring) const;
};

}  // namespace troupe
