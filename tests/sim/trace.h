// What happened in a simulation, one line a step, and a hash over all lines: two runs of one seed must agree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::sim {

inline std::uint64_t hash_bytes(std::uint64_t hash, const void* data, std::size_t size) {  // FNV-1a
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ at[i]) * 0x100000001B3u;
  return hash;
}

class Trace {
 public:
  explicit Trace(bool keep) : keep_(keep) {}

  void add(std::int64_t micros, std::string_view text) {
    hash_ = hash_bytes(hash_, &micros, sizeof micros);
    hash_ = hash_bytes(hash_, text.data(), text.size());
    ++lines_;
    if (keep_) kept_.push_back(stamp(micros) + std::string(text));
  }
  // Bytes that crossed the network; only the hash sees them.
  void mix(const void* data, std::size_t size) { hash_ = hash_bytes(hash_, data, size); }

  std::uint64_t hash() const { return hash_; }
  std::uint64_t lines() const { return lines_; }
  const std::vector<std::string>& kept() const { return kept_; }

 private:
  static std::string stamp(std::int64_t micros) {
    std::string text = std::to_string(micros % 1'000'000);
    return std::to_string(micros / 1'000'000) + "." + std::string(6 - text.size(), '0') + text + " ";
  }

  bool keep_;
  std::uint64_t hash_ = 0xCBF29CE484222325u;
  std::uint64_t lines_ = 0;
  std::vector<std::string> kept_;
};

}  // namespace troupe::sim
