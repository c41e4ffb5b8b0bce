#include "core/auth/random.h"

#include <sys/random.h>

#include <cerrno>

namespace troupe {

Result<void> random_bytes(std::span<std::uint8_t> into) {
  while (!into.empty()) {
    ssize_t n = ::getrandom(into.data(), into.size(), 0);
    if (n < 0 && errno != EINTR) return system_error(errno, "getrandom");
    if (n > 0) into = into.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace troupe
