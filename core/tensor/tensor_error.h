// What a tensor throws when it is used wrongly: each says what was wanted, what was there, and what to do.
#pragma once

#include "core/base/throws_error.h"

namespace troupe {

// The base; kind() is ErrorKind::invalid_argument.
struct TensorError : ThrowsError {
  explicit TensorError(std::string message)
      : ThrowsError(Error(ErrorKind::invalid_argument, std::move(message))) {}
};
struct WrongDType : TensorError {
  using TensorError::TensorError;
};
// Rank, shape, strides or index.
struct WrongShape : TensorError {
  using TensorError::TensorError;
};
struct WrongDevice : TensorError {
  using TensorError::TensorError;
};
// Made by Tensor(), moved from, or freed with reset(): there is no memory.
struct UndefinedTensor : TensorError {
  using TensorError::TensorError;
};

}  // namespace troupe
