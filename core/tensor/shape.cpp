#include "core/tensor/shape.h"

#include <algorithm>

#include "core/tensor/tensor_error.h"

namespace troupe {

Dims::Dims(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMostDims)
    throw WrongShape("a tensor has at most " + std::to_string(kMostDims) + " dimensions, not " +
                     std::to_string(sizes.size()) + "; reshape it first");
  std::copy(sizes.begin(), sizes.end(), at_.begin());
  size_ = static_cast<int>(sizes.size());
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::int64_t elements(const Dims& shape, std::size_t element_bytes) {
  std::int64_t count = 1;
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes);
  bool too_big = false, none = false;
  for (std::int64_t size : shape) {
    if (size < 0) throw WrongShape("shape " + to_string(shape) + " has a negative size");
    none = none || size == 0;
    too_big = too_big || __builtin_mul_overflow(bytes, size == 0 ? 1 : size, &bytes) || bytes > (1ll << 62);
    if (!too_big) count *= size;
  }
  if (none) return 0;
  if (too_big) throw WrongShape("shape " + to_string(shape) + " is beyond 2^62 bytes");
  return count;
}

Dims row_major(const Dims& shape) {
  Dims strides = shape;
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

std::string to_string(const Dims& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace troupe
