// Tensors to and from DLPack, the struct by which libraries share tensors without copying. Any thread.
#pragma once

#include "core/tensor/tensor.h"

struct DLManagedTensor;  // <dlpack/dlpack.h>

namespace troupe {

// Takes the tensor over: its deleter is called once, when the last view of its memory is gone. Shape and
// strides are copied. Throws WrongDType for types that have no DType (complex, vectors of lanes, packed
// sub-byte ones), WrongDevice for devices other than CPU, pinned host memory and CUDA, WrongShape; the caller
// keeps the tensor then.
Tensor from_dlpack(DLManagedTensor* tensor);

// A new DLManagedTensor that shares the memory. Whoever receives it calls its deleter, once.
DLManagedTensor* to_dlpack(const Tensor& tensor);

}  // namespace troupe
