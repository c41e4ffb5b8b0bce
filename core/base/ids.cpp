#include "core/base/ids.h"

#include <charconv>

namespace troupe {

std::string to_string(ActorId id) {
  return std::to_string(id.value >> kActorCounterBits) + "." + std::to_string(id.value & kActorsPerProcess);
}

ActorId parse_actor_id(const std::string& text) {
  std::uint64_t process = 0, n = 0;
  const char* end = text.data() + text.size();
  auto [dot, bad] = std::from_chars(text.data(), end, process);
  if (bad != std::errc{} || dot == end || *dot != '.') return {};
  auto [rest, bad2] = std::from_chars(dot + 1, end, n);
  if (bad2 != std::errc{} || rest != end || n > kActorsPerProcess || process > kLastProcess) return {};
  return actor_of({process}, n);
}

}  // namespace troupe
