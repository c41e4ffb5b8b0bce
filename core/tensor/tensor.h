// Tensor: elements of one dtype in memory that is shared by reference: shape, strides, device and owner.
//
//   auto weights = Tensor::zeros(DType::f32, {128, 10});
//   auto w = weights.view<float, 2>();        // CPU access; throws WrongDType, WrongShape, WrongDevice
//   w(3, 4) = 0.5f;
//   Tensor row = weights.slice(0, 3, 4);      // shares the memory
//
// Copying a Tensor, slicing and transposing copy no elements: all of them share the memory, and the memory
// lives as long as one of them. Strides are in elements and may be zero or negative. A Tensor made by
// Tensor() is undefined: every use of it but `defined()` throws UndefinedTensor.
//
// Thread: a Tensor object belongs to one thread at a time, as an int does; several may read the same
// elements. Errors: exceptions of core/tensor/tensor_error.h; std::bad_alloc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor_access.h"

namespace troupe {

struct Device {
  enum class Kind : std::uint8_t { cpu = 0, cuda = 1 };
  Kind kind = Kind::cpu;
  int index = 0;  // of the GPU, as CUDA counts them in this process

  static Device cpu() { return {}; }
  static Device cuda(int index) { return {Kind::cuda, index}; }
  bool is_cpu() const { return kind == Kind::cpu; }
  bool operator==(const Device&) const = default;
};
std::string to_string(Device device);  // "cpu", "cuda:1"

class Tensor {
 public:
  Tensor() = default;

  // New memory of the CPU, aligned to 64 bytes. `empty` leaves the elements as they are.
  static Tensor empty(DType dtype, const Dims& shape);
  static Tensor zeros(DType dtype, const Dims& shape);
  // Takes the vector's memory over. Its size must be that of the shape.
  template <Element T>
  static Tensor from(std::vector<T> values, const Dims& shape) {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    check_size(static_cast<std::int64_t>(owner->size()), shape);
    return over(owner->data(), dtype_of<T>(), shape, row_major(shape), Device::cpu(), owner);
  }
  template <Element T>
  static Tensor from(std::vector<T> values) {
    auto size = static_cast<std::int64_t>(values.size());
    return from(std::move(values), {size});
  }
  // Copies the elements.
  template <Element T>
  static Tensor copy_of(std::span<const T> values, const Dims& shape) {
    check_size(static_cast<std::int64_t>(values.size()), shape);
    Tensor tensor = empty(dtype_of<T>(), shape);
    tensor.fill_from(values.data());
    return tensor;
  }
  // Memory of somebody else. `owner` keeps it alive; without one the caller does, longer than any view.
  template <Element T>
  static Tensor over(std::span<T> values, const Dims& shape, std::shared_ptr<const void> owner = nullptr) {
    check_size(static_cast<std::int64_t>(values.size()), shape);
    return over(values.data(), dtype_of<T>(), shape, row_major(shape), Device::cpu(), std::move(owner));
  }
  // The same for any device and any strides; `data` is the element with all indices zero.
  static Tensor over(void* data, DType dtype, const Dims& shape, const Dims& strides, Device device,
                     std::shared_ptr<const void> owner);

  bool defined() const { return defined_; }
  void reset() { *this = Tensor(); }  // gives the memory back, unless others share it

  DType dtype() const;
  const Dims& shape() const;
  const Dims& strides() const;  // in elements
  Device device() const;
  int rank() const { return shape().size(); }
  std::int64_t size(int dim) const;  // of a dimension; negative ones count from the last
  std::int64_t numel() const;        // elements
  std::size_t nbytes() const;        // elements times their size, wherever they lie
  // The address of the element with all indices zero, on the tensor's device. May be null with no elements.
  void* data() const;
  bool is_contiguous() const;    // row-major without gaps
  std::string describe() const;  // "f32 [2, 3] on cpu"

  // CPU access to elements: see tensor_access.h. T may be const.
  template <class T, int Rank>
  TensorAccess<T, Rank> view() const {
    check_access(dtype_of<std::remove_const_t<T>>(), Rank);
    return {static_cast<T*>(data()), shape().begin(), strides().begin()};
  }
  // All elements of a contiguous CPU tensor, in row-major order.
  template <class T>
  std::span<T> span() const {
    check_flat_access(dtype_of<std::remove_const_t<T>>());
    return {static_cast<T*>(data()), static_cast<std::size_t>(numel())};
  }

  // Views: they share the memory.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;  // step >= 1
  Tensor select(int dim, std::int64_t index) const;  // one index of a dimension, which goes away
  Tensor transpose(int dim0 = -2, int dim1 = -1) const;
  // Shares the memory where the strides allow it (always when contiguous) and copies otherwise. One size may
  // be -1: it follows from the others.
  Tensor reshape(const Dims& shape) const;

  Tensor contiguous() const;  // itself when it is, else a packed copy
  Tensor clone() const;       // a packed copy
  // Copies the elements of a CPU tensor of the same dtype and shape. The two may not overlap unless equal.
  void copy_from(const Tensor& from) const;

 private:
  static void check_size(std::int64_t values, const Dims& shape);
  void check_defined(const char* what) const;
  void check_access(DType dtype, int rank) const;
  void check_flat_access(DType dtype) const;
  int dim_index(int dim) const;
  void fill_from(const void* packed) const;

  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  Dims shape_, strides_;
  Device device_;
  DType dtype_ = DType::f32;
  bool defined_ = false;
};

}  // namespace troupe
