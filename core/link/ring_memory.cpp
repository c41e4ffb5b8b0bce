#include "core/link/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>

namespace troupe {

namespace {

constexpr std::size_t kControlBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
static_assert(2 * sizeof(RingControl) <= kControlBytes);

bool valid_capacity(std::size_t bytes) {
  return std::has_single_bit(bytes) && bytes >= kSmallestRing && bytes <= kLargestRing;
}

}  // namespace

Result<UniqueFd> create_ring_memory(std::size_t ring_bytes) {
  if (!valid_capacity(ring_bytes)) {
    return Error(ErrorKind::invalid_argument,
                 "a ring has " + std::to_string(ring_bytes) + " bytes; use a power of two from " +
                     std::to_string(kSmallestRing) + " to " + std::to_string(kLargestRing));
  }
  UniqueFd fd(::memfd_create("troupe-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error(errno, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(kControlBytes + 2 * ring_bytes)) != 0) {
    return system_error(errno, "sizing the shared memory of a link");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return system_error(errno, "sealing the shared memory of a link");
  return fd;
}

Result<RingMemory> RingMemory::map(const UniqueFd& fd) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error(errno, "the shared memory of a link");
  auto bytes = static_cast<std::size_t>(status.st_size);
  RingMemory memory;
  memory.capacity = bytes > kControlBytes ? (bytes - kControlBytes) / 2 : 0;
  if (!S_ISREG(status.st_mode) || !valid_capacity(memory.capacity) ||
      bytes != kControlBytes + 2 * memory.capacity) {
    return Error(ErrorKind::invalid_argument, "the shared memory of a link has a false size of " +
                                                  std::to_string(status.st_size) + " bytes");
  }
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
    return Error(ErrorKind::invalid_argument, "the shared memory of a link is not sealed against shrinking");
  }
  Result<Mapping> mapping = Mapping::shared(fd.get(), bytes);
  if (!mapping) return mapping.error();
  memory.mapping = *std::move(mapping);
  return memory;
}

std::byte* RingMemory::data(int ring) const {
  return mapping.data() + kControlBytes + static_cast<std::size_t>(ring) * capacity;
}

}  // namespace troupe
