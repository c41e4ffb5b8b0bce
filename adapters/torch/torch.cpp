#include "troupe/torch.h"

#include <ATen/Functions.h>

#include <array>
#include <memory>
#include <utility>

#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 10> kTypes = {{
    {DType::f16, at::kHalf},
    {DType::bf16, at::kBFloat16},
    {DType::f32, at::kFloat},
    {DType::f64, at::kDouble},
    {DType::i8, at::kChar},
    {DType::i16, at::kShort},
    {DType::i32, at::kInt},
    {DType::i64, at::kLong},
    {DType::u8, at::kByte},
    {DType::boolean, at::kBool},
}};

}  // namespace

at::Tensor to_torch(const Tensor& tensor) {
  if (!tensor.defined()) throw UndefinedTensor("a tensor for libtorch is undefined: make one first");
  for (auto [dtype, type] : kTypes) {
    if (dtype != tensor.dtype()) continue;
    std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end()),
        strides(tensor.strides().begin(), tensor.strides().end());
    for (std::int64_t stride : strides)
      if (stride < 0)
        throw WrongShape(tensor.describe() +
                         " has a negative stride, which libtorch does not have: give it contiguous()");
    Device device = tensor.device();
    auto options = at::TensorOptions(type).device(
        device.is_cpu() ? at::Device(at::kCPU)
                        : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index)));
    // libtorch may keep a tensor without elements at no address.
    if (tensor.numel() == 0) return at::empty(shape, options);
    return at::from_blob(
        tensor.data(), shape, strides, [owner = tensor](void*) {}, options);
  }
  throw WrongDType(tensor.describe() + ": libtorch has no such type; convert it to a signed one");
}

Tensor from_torch(const at::Tensor& tensor) {
  if (!tensor.defined())
    throw UndefinedTensor("a tensor of libtorch is undefined: does that parameter have a gradient?");
  if (tensor.layout() != at::kStrided)
    throw WrongShape("a tensor of libtorch does not lie in memory by strides: give it to_dense()");
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda())
    throw WrongDevice("a tensor of libtorch is on " + tensor.device().str() +
                      ": copy it to the CPU or a GPU of CUDA");
  for (auto [dtype, type] : kTypes) {
    if (type != tensor.scalar_type()) continue;
    auto sizes = tensor.sizes(), steps = tensor.strides();
    Dims shape(std::span(sizes.data(), sizes.size())), strides(std::span(steps.data(), steps.size()));
    Device device = tensor.device().is_cpu() ? Device::cpu() : Device::cuda(tensor.device().index());
    auto owner = std::make_shared<at::Tensor>(tensor.detach());
    return Tensor::over(owner->data_ptr(), dtype, shape, strides, device, owner);
  }
  throw WrongDType(std::string("a tensor of libtorch has the type ") + at::toString(tensor.scalar_type()) +
                   ": convert it to one that troupe::Tensor has");
}

}  // namespace troupe
