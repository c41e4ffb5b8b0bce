#include "core/tensor/strided_copy.h"

#include <cstdint>
#include <cstring>

namespace troupe {
namespace {

struct Layout {
  int rank = 0;
  std::int64_t size[Dims::kMostDims], to[Dims::kMostDims], from[Dims::kMostDims];
};

// Leaves out dimensions of one element and joins neighbours that both sides hold without a gap.
Layout simplify(const Dims& shape, const Dims& to, const Dims& from) {
  Layout out;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    int last = out.rank - 1;
    if (last >= 0 && out.to[last] == to[i] * shape[i] && out.from[last] == from[i] * shape[i]) {
      out.size[last] *= shape[i];
      out.to[last] = to[i];
      out.from[last] = from[i];
    } else {
      out.size[out.rank] = shape[i];
      out.to[out.rank] = to[i];
      out.from[out.rank] = from[i];
      ++out.rank;
    }
  }
  return out;
}

template <class T>
void copy_dim(const Layout& layout, int dim, T* to, const T* from) {
  std::int64_t n = layout.size[dim], to_step = layout.to[dim], from_step = layout.from[dim];
  if (dim + 1 < layout.rank) {
    for (std::int64_t i = 0; i < n; ++i) copy_dim(layout, dim + 1, to + i * to_step, from + i * from_step);
  } else if (to_step == 1 && from_step == 1) {
    std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

template <class T>
void copy_elements(const Layout& layout, std::byte* to, const std::byte* from) {
  auto* target = reinterpret_cast<T*>(to);
  auto* source = reinterpret_cast<const T*>(from);
  if (layout.rank == 0)
    *target = *source;
  else
    copy_dim(layout, 0, target, source);
}

}  // namespace

void strided_copy(std::byte* to, const Dims& to_strides, const std::byte* from, const Dims& from_strides,
                  const Dims& shape, std::size_t element_bytes) {
  if (elements(shape) == 0) return;
  Layout layout = simplify(shape, to_strides, from_strides);
  switch (element_bytes) {
    case 1:
      return copy_elements<std::uint8_t>(layout, to, from);
    case 2:
      return copy_elements<std::uint16_t>(layout, to, from);
    case 4:
      return copy_elements<std::uint32_t>(layout, to, from);
    default:
      return copy_elements<std::uint64_t>(layout, to, from);
  }
}

}  // namespace troupe
