// Which parts of the arena are free. Takes the smallest part that fits, the one freed last among equals, so
// that memory that was used stays in use; the end of the arena, where nothing was yet, comes last.
//
// A plain value: no memory is touched here. Limits: as many parts as there are objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace troupe {

class Extents {
 public:
  static constexpr std::uint64_t kSmallest = 4096;

  explicit Extents(std::uint64_t capacity);

  // What an object of that many bytes takes up.
  static std::uint64_t rounded(std::uint64_t size);

  std::optional<std::uint64_t> take(std::uint64_t size);  // a rounded size; its offset
  void free(std::uint64_t offset, std::uint64_t size);

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t largest() const;
  // All that was ever taken lies below.
  std::uint64_t high_water() const { return high_water_; }

 private:
  struct Part {
    std::uint64_t size = 0, freed = 0;  // freed: a count, the last one is the largest
  };
  using Parts = std::map<std::uint64_t, Part>;  // by offset
  void add(std::uint64_t offset, Part part);
  void remove(Parts::iterator at);

  std::uint64_t capacity_, used_ = 0, high_water_ = 0, frees_ = 0;
  Parts parts_;
  // Size, then the last freed first, then the offset; without the part that ends the arena.
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> by_size_;
};

}  // namespace troupe
