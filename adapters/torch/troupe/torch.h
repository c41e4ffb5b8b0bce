// Tensors of libtorch and of Troupe that share memory.
//
//   auto gradients = troupe::from_torch(parameter.grad());   // the same memory, for a group
//   auto images = troupe::to_torch(batch);                   // the same memory, for a network
//
// Neither copies: the memory lives as long as one of the two tensors. Types that libtorch does not have (u16,
// u32, u64) throw WrongDType, negative strides and sparse tensors WrongShape, undefined ones UndefinedTensor.
// GPUs keep their index. What gradients know of a tensor stays with libtorch. Any thread.
//
// Built where libtorch is found (TROUPE_TORCH); link troupe_torch.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/tensor.h"

namespace troupe {

at::Tensor to_torch(const Tensor& tensor);
Tensor from_torch(const at::Tensor& tensor);

}  // namespace troupe
