// Dimensions of a tensor: up to kMostDims of them, kept in place so that a view allocates nothing. Any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace troupe {

class Dims {
 public:
  static constexpr int kMostDims = 12;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> sizes) : Dims(std::span(sizes.begin(), sizes.size())) {}
  explicit Dims(std::span<const std::int64_t> sizes);  // throws WrongShape above kMostDims

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t& operator[](int i) { return at_[static_cast<std::size_t>(i)]; }
  std::int64_t operator[](int i) const { return at_[static_cast<std::size_t>(i)]; }
  const std::int64_t* begin() const { return at_.data(); }
  const std::int64_t* end() const { return at_.data() + size_; }
  bool operator==(const Dims& other) const;

 private:
  std::array<std::int64_t, kMostDims> at_{};
  int size_ = 0;
};

// The number of elements. Throws WrongShape when a size is negative or the bytes exceed 2^62.
std::int64_t elements(const Dims& shape, std::size_t element_bytes = 1);
Dims row_major(const Dims& shape);         // strides in elements, last dimension closest
std::string to_string(const Dims& shape);  // "[2, 3]"

}  // namespace troupe
