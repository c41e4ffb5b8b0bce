#include "core/tensor/dlpack.h"

#include <dlpack/dlpack.h>

#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

constexpr std::uint8_t kBoolCode = 6;  // kDLBool of DLPack 0.8 and later

struct Export {
  DLManagedTensor managed{};
  Tensor tensor;
  Dims shape, strides;
};

DLDataType type_of(DType dtype) {
  std::uint8_t code = kDLFloat;
  switch (dtype) {
    case DType::bf16:
      code = kDLBfloat;
      break;
    case DType::boolean:
      code = kBoolCode;
      break;
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
      code = kDLInt;
      break;
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
      code = kDLUInt;
      break;
    default:
      break;
  }
  return {code, static_cast<std::uint8_t>(size_of(dtype) * 8), 1};
}

DType dtype_from(DLDataType type) {
  for (std::uint8_t i = 0; i < kDTypes; ++i) {
    DLDataType known = type_of(static_cast<DType>(i));
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return static_cast<DType>(i);
  }
  throw WrongDType("a DLPack tensor with type code " + std::to_string(type.code) + ", " +
                   std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) +
                   " lanes has no dtype here; convert it before");
}

Device device_from(DLDevice device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) return Device::cpu();
  if (device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged)
    return Device::cuda(device.device_id);
  throw WrongDevice("a DLPack tensor of device type " + std::to_string(device.device_type) +
                    "; only memory of the CPU and of CUDA devices is taken, copy it there first");
}

}  // namespace

Tensor from_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) throw UndefinedTensor("from_dlpack: the pointer is null");
  const DLTensor& in = managed->dl_tensor;
  if (in.ndim < 0 || (in.ndim > 0 && in.shape == nullptr))
    throw WrongShape("from_dlpack: the DLPack tensor has no valid shape");
  auto rank = static_cast<std::size_t>(in.ndim);
  Dims shape{std::span<const std::int64_t>(in.shape, rank)};
  Dims strides =
      in.strides == nullptr ? row_major(shape) : Dims(std::span<const std::int64_t>(in.strides, rank));
  DType dtype = dtype_from(in.dtype);
  Device device = device_from(in.device);
  void* data = in.data == nullptr ? nullptr : static_cast<std::byte*>(in.data) + in.byte_offset;
  Tensor::over(data, dtype, shape, strides, device, nullptr);  // throws while the caller still owns it
  std::shared_ptr<DLManagedTensor> owner(managed, [](DLManagedTensor* m) {
    if (m->deleter != nullptr) m->deleter(m);
  });
  return Tensor::over(data, dtype, shape, strides, device, std::move(owner));
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  auto made = std::make_unique<Export>();
  made->tensor = tensor;
  made->shape = tensor.shape();
  made->strides = tensor.strides();
  DLTensor& out = made->managed.dl_tensor;
  out.data = tensor.data();
  out.device.device_type = tensor.device().is_cpu() ? kDLCPU : kDLCUDA;
  out.device.device_id = tensor.device().index;
  out.ndim = tensor.rank();
  out.dtype = type_of(tensor.dtype());
  out.shape = &made->shape[0];
  out.strides = &made->strides[0];
  out.byte_offset = 0;
  made->managed.manager_ctx = made.get();
  made->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Export*>(self->manager_ctx); };
  return &made.release()->managed;
}

}  // namespace troupe
