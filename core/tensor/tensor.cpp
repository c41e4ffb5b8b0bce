#include "core/tensor/tensor.h"

#include <cstring>
#include <new>

#include "core/tensor/strided_copy.h"
#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

constexpr std::align_val_t kAlignment{64};

// At least one byte, so that also a tensor without elements has an address of its own.
std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes == 0 ? 1 : bytes, kAlignment));
  return {memory, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

std::string range_error(const char* what, std::int64_t given, std::int64_t limit) {
  return std::string(what) + " " + std::to_string(given) + " is outside of 0.." + std::to_string(limit);
}

}  // namespace

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

Tensor Tensor::empty(DType dtype, const Dims& shape) {
  auto bytes = static_cast<std::size_t>(elements(shape, size_of(dtype))) * size_of(dtype);
  auto memory = allocate(bytes);
  return over(memory.get(), dtype, shape, row_major(shape), Device::cpu(), memory);
}

Tensor Tensor::zeros(DType dtype, const Dims& shape) {
  Tensor tensor = empty(dtype, shape);
  std::memset(tensor.data_, 0, tensor.nbytes());
  return tensor;
}

Tensor Tensor::over(void* data, DType dtype, const Dims& shape, const Dims& strides, Device device,
                    std::shared_ptr<const void> owner) {
  if (shape.size() != strides.size())
    throw WrongShape("shape " + to_string(shape) + " and strides " + to_string(strides) +
                     " differ in their number of dimensions");
  if (elements(shape, size_of(dtype)) != 0 && data == nullptr)
    throw UndefinedTensor("a tensor of shape " + to_string(shape) + " needs memory, and its pointer is null");
  Tensor tensor;
  tensor.data_ = static_cast<std::byte*>(data);
  tensor.owner_ = std::move(owner);
  tensor.shape_ = shape;
  tensor.strides_ = strides;
  tensor.device_ = device;
  tensor.dtype_ = dtype;
  tensor.defined_ = true;
  return tensor;
}

void Tensor::check_size(std::int64_t values, const Dims& shape) {
  if (elements(shape) != values)
    throw WrongShape("shape " + to_string(shape) + " has " + std::to_string(elements(shape)) +
                     " elements, but " + std::to_string(values) + " values were given");
}

void Tensor::check_defined(const char* what) const {
  if (!defined_)
    throw UndefinedTensor(std::string(what) +
                          " of a tensor without memory: it was never made, moved from, or freed by reset()");
}

DType Tensor::dtype() const { return check_defined("dtype()"), dtype_; }
const Dims& Tensor::shape() const { return check_defined("shape()"), shape_; }
const Dims& Tensor::strides() const { return check_defined("strides()"), strides_; }
Device Tensor::device() const { return check_defined("device()"), device_; }
void* Tensor::data() const { return check_defined("data()"), data_; }
std::int64_t Tensor::size(int dim) const { return shape()[dim_index(dim)]; }
std::int64_t Tensor::numel() const { return elements(shape()); }
std::size_t Tensor::nbytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }

bool Tensor::is_contiguous() const {
  check_defined("is_contiguous()");
  if (numel() == 0) return true;
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

std::string Tensor::describe() const {
  if (!defined_) return "undefined";
  return std::string(to_string(dtype_)) + " " + to_string(shape_) + " on " + to_string(device_);
}

void Tensor::check_access(DType dtype, int rank) const {
  check_defined("view()");
  if (dtype != dtype_)
    throw WrongDType(std::string("elements were asked for as ") + to_string(dtype) + ", the tensor is " +
                     describe() + "; use the C++ type of its dtype");
  if (rank != this->rank())
    throw WrongShape("access with " + std::to_string(rank) + " indices to " + describe() +
                     "; use as many as it has dimensions, or reshape it");
  if (!device_.is_cpu())
    throw WrongDevice("elements of " + describe() +
                      " cannot be accessed by the CPU; copy it to the CPU first");
}

void Tensor::check_flat_access(DType dtype) const {
  check_access(dtype, rank());
  if (!is_contiguous())
    throw WrongShape("span() of a view with gaps, " + describe() + " with strides " + to_string(strides_) +
                     "; use contiguous().span() or view()");
}

int Tensor::dim_index(int dim) const {
  int index = dim < 0 ? dim + rank() : dim;
  if (index < 0 || index >= rank())
    throw WrongShape("dimension " + std::to_string(dim) + " of " + describe() + " does not exist");
  return index;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  int i = dim_index(dim);
  if (begin < 0 || begin > shape_[i]) throw WrongShape(range_error("slice: begin", begin, shape_[i]));
  if (end < begin || end > shape_[i]) throw WrongShape(range_error("slice: end", end, shape_[i]));
  if (step < 1) throw WrongShape("slice: step " + std::to_string(step) + " must be at least 1");
  Tensor view = *this;
  view.shape_[i] = (end - begin + step - 1) / step;
  view.strides_[i] = strides_[i] * step;
  if (view.numel() != 0) view.data_ += begin * strides_[i] * static_cast<std::int64_t>(size_of(dtype_));
  return view;
}

Tensor Tensor::select(int dim, std::int64_t index) const {
  int i = dim_index(dim);
  if (index < 0 || index >= shape_[i]) throw WrongShape(range_error("select: index", index, shape_[i] - 1));
  Tensor view = slice(i, index, index + 1);
  std::vector<std::int64_t> sizes, steps;
  for (int d = 0; d < rank(); ++d) {
    if (d == i) continue;
    sizes.push_back(shape_[d]);
    steps.push_back(strides_[d]);
  }
  view.shape_ = Dims(std::span<const std::int64_t>(sizes));
  view.strides_ = Dims(std::span<const std::int64_t>(steps));
  return view;
}

Tensor Tensor::transpose(int dim0, int dim1) const {
  int a = dim_index(dim0), b = dim_index(dim1);
  Tensor view = *this;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Tensor Tensor::reshape(const Dims& wanted) const {
  check_defined("reshape()");
  Dims shape = wanted;
  std::int64_t known = 1;
  int open = -1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0)
      open = i;
    else
      known *= shape[i];
  }
  if (open >= 0) shape[open] = known > 0 ? numel() / known : 0;
  if (elements(shape) != numel())
    throw WrongShape("reshape of " + describe() + " to " + to_string(wanted) +
                     ", which has another number of elements");
  Tensor packed = contiguous();
  packed.shape_ = shape;
  packed.strides_ = row_major(shape);
  return packed;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  check_defined("clone()");
  Tensor packed = empty(dtype_, shape_);
  packed.copy_from(*this);
  return packed;
}

void Tensor::copy_from(const Tensor& from) const {
  check_defined("copy_from()");
  from.check_defined("copy_from()");
  if (dtype_ != from.dtype_)
    throw WrongDType("copy from " + from.describe() + " to " + describe() + ": convert the elements first");
  if (shape_ != from.shape_)
    throw WrongShape("copy from " + from.describe() + " to " + describe() + ": reshape or slice one of them");
  if (!device_.is_cpu() || !from.device_.is_cpu())
    throw WrongDevice("copy from " + from.describe() + " to " + describe() +
                      ": only CPU tensors are copied here");
  strided_copy(data_, strides_, from.data_, from.strides_, shape_, size_of(dtype_));
}

void Tensor::fill_from(const void* packed) const {
  if (nbytes() != 0) std::memcpy(data_, packed, nbytes());
}

}  // namespace troupe
