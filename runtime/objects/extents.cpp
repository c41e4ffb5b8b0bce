#include "runtime/objects/extents.h"

#include <algorithm>

namespace troupe {
namespace {

constexpr std::uint64_t kMedium = 64 << 10, kLarge = 2 << 20;

std::uint64_t round_up(std::uint64_t size, std::uint64_t to) { return (size + to - 1) / to * to; }

}  // namespace

Extents::Extents(std::uint64_t capacity) : capacity_(capacity) { add(0, {capacity, 0}); }

std::uint64_t Extents::rounded(std::uint64_t size) {
  if (size <= kMedium / 2) return std::max(round_up(size, kSmallest), kSmallest);
  if (size <= 8 * kLarge) return round_up(size, kMedium);
  return round_up(size, kLarge);
}

void Extents::add(std::uint64_t offset, Part part) {
  parts_[offset] = part;
  if (offset + part.size != capacity_) by_size_.insert({part.size, ~part.freed, offset});
}

void Extents::remove(Parts::iterator at) {
  by_size_.erase({at->second.size, ~at->second.freed, at->first});
  parts_.erase(at);
}

std::optional<std::uint64_t> Extents::take(std::uint64_t size) {
  Parts::iterator at;
  if (auto fits = by_size_.lower_bound({size, 0, 0}); fits != by_size_.end()) {
    at = parts_.find(std::get<2>(*fits));
  } else {
    if (parts_.empty()) return std::nullopt;
    at = std::prev(parts_.end());
    if (at->second.size < size) return std::nullopt;
  }
  std::uint64_t offset = at->first;
  Part rest = at->second;
  remove(at);
  if (rest.size > size) add(offset + size, {rest.size - size, rest.freed});
  used_ += size;
  high_water_ = std::max(high_water_, offset + size);
  return offset;
}

void Extents::free(std::uint64_t offset, std::uint64_t size) {
  used_ -= size;
  Part part{size, ++frees_};
  auto after = parts_.lower_bound(offset);
  if (after != parts_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second.size == offset) {
      offset = before->first;
      part.size += before->second.size;
      remove(before);
    }
  }
  if (after != parts_.end() && after->first == offset + part.size) {
    part.size += after->second.size;
    remove(after);
  }
  add(offset, part);
}

std::uint64_t Extents::largest() const {
  std::uint64_t most = by_size_.empty() ? 0 : std::get<0>(*by_size_.rbegin());
  if (!parts_.empty()) most = std::max(most, std::prev(parts_.end())->second.size);
  return most;
}

}  // namespace troupe
