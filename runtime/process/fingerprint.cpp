#include "runtime/process/fingerprint.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/os/fd.h"

namespace troupe {
namespace {

// The linker's build id of the main program, when it has one.
int build_id(dl_phdr_info* info, std::size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const char* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* data = name + ((note.n_namesz + 3) & ~3u);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        *static_cast<std::uint64_t*>(out) = XXH3_64bits(data, note.n_descsz);
        return 1;
      }
      at = data + ((note.n_descsz + 3) & ~3u);
    }
  }
  return 1;  // the main program comes first; others do not count
}

std::uint64_t content_hash() {
  UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || info.st_size == 0) return 0;
  void* data = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return 0;
  std::uint64_t hash = XXH3_64bits(data, static_cast<std::size_t>(info.st_size));
  ::munmap(data, static_cast<std::size_t>(info.st_size));
  return hash;
}

}  // namespace

std::uint64_t fingerprint() {
  static const std::uint64_t value = [] {
    std::uint64_t id = 0;
    ::dl_iterate_phdr(build_id, &id);
    return id != 0 ? id : content_hash();
  }();
  return value;
}

std::string executable_path() {
  char path[4096];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

}  // namespace troupe
