// Copies elements between two layouts of one shape. Strides in elements. Any thread.
#pragma once

#include <cstddef>

#include "core/tensor/shape.h"

namespace troupe {

void strided_copy(std::byte* to, const Dims& to_strides, const std::byte* from, const Dims& from_strides,
                  const Dims& shape, std::size_t element_bytes);

}  // namespace troupe
