// Memory of GPUs as tensors, accounted against this process's share: half of a card for an actor with
// gpus(0.5), all of it for one with whole GPUs, and for programs that are no actor. What other libraries
// allocate themselves is not counted, nor is what other processes share with this one: it counts there.
//
// Owner: Devices. Any thread. A tensor's memory goes, and its bytes are uncounted, with its last view; it may
// outlive this. Errors: wrong_device; device_memory_exceeded, whose message says device, asked, in use,
// share.
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor/tensor.h"
#include "runtime/device/device_driver.h"

namespace troupe {

class DeviceMemory {
 public:
  DeviceMemory(DeviceDriver& driver, double share);

  // Not initialised, row-major. Throws WrongShape, as Tensor::empty does.
  Result<Tensor> empty(Device device, DType dtype, const Dims& shape);
  struct Use {
    std::uint64_t total = 0, free = 0;    // of the card, as the driver tells
    std::uint64_t limit = 0, in_use = 0;  // of this process: its share, and what it has of it
  };
  Result<Use> use(Device device);
  // wrong_device unless it is a GPU that this process sees.
  Result<void> check(Device device) const;

 private:
  struct State;
  Result<std::uint64_t> limit(int device);
  std::shared_ptr<State> state_;
};

}  // namespace troupe
