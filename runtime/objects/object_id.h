// ObjectId: names an object in a cluster for ever. `node` is its home: the agent of the node on which it was
// put, whose count decides its life.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/ids.h"

namespace troupe {

struct ObjectId {
  std::uint32_t cluster = 0;  // tells another cluster's ids
  NodeId node;
  std::uint64_t number = 0;  // the store's number of the process that put it, then a count: see object_number

  explicit operator bool() const { return number != 0; }
  auto operator<=>(const ObjectId&) const = default;
};

inline constexpr int kObjectCounterBits = 36;

constexpr std::uint64_t object_number(std::uint64_t process, std::uint64_t n) {
  return process << kObjectCounterBits | n;
}

// Shown as node.process.count, e.g. "2.5.17".
inline std::string to_string(const ObjectId& id) {
  return to_string(id.node) + "." + std::to_string(id.number >> kObjectCounterBits) + "." +
         std::to_string(id.number & ((std::uint64_t{1} << kObjectCounterBits) - 1));
}

}  // namespace troupe

template <>
struct std::hash<troupe::ObjectId> {
  std::size_t operator()(const troupe::ObjectId& id) const noexcept {
    std::uint64_t x = (id.number ^ id.node.value * 0xC2B2AE3D27D4EB4Fu) * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(x ^ (x >> 32));
  }
};
