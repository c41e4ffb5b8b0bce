// What a tensor throws when it is used wrongly: each says what was wanted, what was there, and what to do.
#pragma once

#include "core/base/throws_error.h"

namespace troupe {

// The base; kind() is ErrorKind::invalid_argument, but for WrongDevice.
struct TensorError : ThrowsError {
  explicit TensorError(std::string message)
      : ThrowsError(Error(ErrorKind::invalid_argument, std::move(message))) {}

 protected:
  using ThrowsError::ThrowsError;
};
struct WrongDType : TensorError {
  using TensorError::TensorError;
};
// Rank, shape, strides or index.
struct WrongShape : TensorError {
  using TensorError::TensorError;
};
// A device that this process does not see, or that is of no use for what was asked; ErrorKind::wrong_device.
struct WrongDevice : TensorError {
  explicit WrongDevice(std::string message)
      : WrongDevice(Error(ErrorKind::wrong_device, std::move(message))) {}
  explicit WrongDevice(Error error) : TensorError(std::move(error)) {}
};
// Made by Tensor(), moved from, or freed with reset(): there is no memory.
struct UndefinedTensor : TensorError {
  using TensorError::TensorError;
};

}  // namespace troupe
