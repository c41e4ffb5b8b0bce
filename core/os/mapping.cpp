#include "core/os/mapping.h"

#include <sys/mman.h>

#include <cerrno>

namespace troupe {

Mapping::~Mapping() {
  if (data_) ::munmap(data_, size_);
}

Result<Mapping> Mapping::shared(int fd, std::size_t size, bool writable) {
  int access = PROT_READ | (writable ? PROT_WRITE : 0);
  void* at = ::mmap(nullptr, size, access, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED)
    return system_error(errno, "mapping " + std::to_string(size) + " bytes of shared memory");
  return Mapping(static_cast<std::byte*>(at), size);
}

}  // namespace troupe
