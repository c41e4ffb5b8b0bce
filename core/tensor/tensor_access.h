// TensorAccess<T, Rank>: elements of a CPU tensor by index, like std::mdspan. `access(i, j)` does not check
// its indices, `access.at(i, j)` throws std::out_of_range. Owns nothing: valid while a tensor of that memory
// lives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace troupe {

template <class T, int Rank>
class TensorAccess {
 public:
  TensorAccess(T* data, const std::int64_t* shape, const std::int64_t* strides) : data_(data) {
    for (std::size_t i = 0; i < Rank; ++i) {
      shape_[i] = shape[i];
      strides_[i] = strides[i];
    }
  }

  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank, "as many indices as dimensions");
    std::int64_t offset = 0;
    std::size_t dim = 0;
    ((offset += static_cast<std::int64_t>(index) * strides_[dim++]), ...);
    return data_[offset];
  }
  template <class... Index>
  T& at(Index... index) const {
    std::size_t dim = 0;
    auto inside = [&](std::int64_t i) { return i >= 0 && i < shape_[dim++]; };
    if (!(inside(static_cast<std::int64_t>(index)) && ...))
      throw std::out_of_range("an index lies outside of the tensor's shape");
    return (*this)(index...);
  }
  std::int64_t extent(int dim) const { return shape_[static_cast<std::size_t>(dim)]; }
  std::int64_t stride(int dim) const { return strides_[static_cast<std::size_t>(dim)]; }

 private:
  T* data_;
  std::array<std::int64_t, Rank> shape_{}, strides_{};
};

}  // namespace troupe
