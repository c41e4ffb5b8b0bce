// Identities. All are 64 bits, unique in a cluster for ever, and 0 means "none".
//
// A ProcessId (driver or worker) is numbered by the head. An ActorId is chosen by the process that spawns the
// actor: the upper 40 bits are that process, the lower 24 count, so no round trip is needed to name an actor.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

template <class Tag>
struct Id {
  std::uint64_t value = 0;

  explicit operator bool() const { return value != 0; }
  auto operator<=>(const Id&) const = default;
};

using NodeId = Id<struct NodeTag>;
using JobId = Id<struct JobTag>;
using ProcessId = Id<struct ProcessTag>;
using ActorId = Id<struct ActorTag>;

inline constexpr int kActorCounterBits = 24;
inline constexpr std::uint64_t kActorsPerProcess = (std::uint64_t{1} << kActorCounterBits) - 1;
inline constexpr std::uint64_t kLastProcess = (std::uint64_t{1} << 40) - 1;

// The n-th actor (1 … kActorsPerProcess) spawned by `process`.
constexpr ActorId actor_of(ProcessId process, std::uint64_t n) {
  return {process.value << kActorCounterBits | n};
}

// Shown and parsed as process.counter, e.g. "3.17"; other ids as plain numbers.
std::string to_string(ActorId id);
ActorId parse_actor_id(const std::string& text);  // none when it is not one

template <class Tag>
std::string to_string(Id<Tag> id) {
  return std::to_string(id.value);
}

}  // namespace troupe

template <class Tag>
struct std::hash<troupe::Id<Tag>> {
  std::size_t operator()(troupe::Id<Tag> id) const noexcept {
    std::uint64_t x = id.value * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(x ^ (x >> 32));
  }
};
