// Tensors: typed elements with a shape, shared by reference, on the CPU or a GPU.
//
//   troupe::Tensor      core/tensor/tensor.h: making, views, slices, access to elements
//   from_dlpack()       core/tensor/dlpack.h: sharing with other libraries without a copy
//   TensorError …       core/tensor/tensor_error.h: WrongDType, WrongShape, WrongDevice, UndefinedTensor
//
// A Tensor may be an argument or a result of a method, alone or inside of other types. It travels by value:
// its elements are packed and copied, and the receiver has memory of its own.
#pragma once

#include "core/tensor/dlpack.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_codec.h"
#include "core/tensor/tensor_error.h"
