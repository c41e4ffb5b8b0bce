// What happened in a simulation, one line a step, and a hash over all lines: two runs of one seed must agree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
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

  // Parts are texts and numbers; they become a text only when it is wanted.
  template <class... Parts>
  void add(std::int64_t micros, const Parts&... parts) {
    hash_ = hash_bytes(hash_, &micros, sizeof micros);
    (hash_part(parts), ...);
    ++lines_;
    if (!keep_) return;
    std::string text = stamp(micros);
    (append(text, parts), ...);
    kept_.push_back(std::move(text));
  }
  // Bytes that crossed the network; only the hash sees them.
  void mix(const void* data, std::size_t size) { hash_ = hash_bytes(hash_, data, size); }

  std::uint64_t hash() const { return hash_; }
  std::uint64_t lines() const { return lines_; }
  const std::vector<std::string>& kept() const { return kept_; }

 private:
  template <class Part>
  void hash_part(const Part& part) {
    if constexpr (std::is_integral_v<Part>) {
      hash_ = hash_bytes(hash_, &part, sizeof part);
    } else {
      std::string_view text(part);
      hash_ = hash_bytes(hash_, text.data(), text.size());
    }
  }
  template <class Part>
  static void append(std::string& to, const Part& part) {
    if constexpr (std::is_integral_v<Part>)
      to += std::to_string(part);
    else
      to += std::string_view(part);
  }
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
