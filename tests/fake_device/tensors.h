// Tensors with known contents, to be sent through devices, and their comparison.
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include "core/tensor/tensor.h"

namespace troupe::test {

inline Tensor counting(const Dims& shape) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(elements(shape)));
  std::iota(values.begin(), values.end(), 7);
  return Tensor::from(std::move(values), shape);
}

inline bool same(const Tensor& a, const Tensor& b) {
  Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         (x.nbytes() == 0 || std::memcmp(x.data(), y.data(), x.nbytes()) == 0);
}

}  // namespace troupe::test
