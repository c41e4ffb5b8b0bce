// Tensors on GPUs.
//
//   auto weights = troupe::to_device(on_cpu, troupe::Device::cuda(0));
//   auto fresh = troupe::empty_on(troupe::Device::cuda(0), troupe::DType::f32, {1024, 1024});
//   actor.call<&Trainer::step>(weights);         // inside of a node the memory itself is passed
//   troupe::Tensor back = troupe::to_cpu(weights);
//
// Memory is accounted against the actor's share of its GPU: half of the card for ActorOptions().gpus(0.5),
// all of it for whole GPUs and for programs that are no actor. What other libraries allocate is not counted.
//
// A GPU's tensor in a call is shared, not copied, where receiver and sender are in one process or on one
// node; elsewhere its elements are copied to the receiver's first GPU. So neither side writes to it, unless
// both know that. What wrote it has to be finished before the call is made, and before a copy: work on
// streams of your own is yours to wait for. What is given back here is complete. See
// docs/concepts/devices.md.
//
// Any thread. Errors: WrongDevice (no such GPU in this process), DeviceMemoryExceeded, DeadlineExceeded (the
// device hangs, or all staging buffers are in use), ObjectLost (the memory was that of a process that has
// ended), Unavailable (what the driver reports).
#pragma once

#include <chrono>
#include <cstdint>

#include "troupe/errors.h"
#include "troupe/tensor.h"

namespace troupe {

inline constexpr std::chrono::milliseconds kDevicePatience{30'000};

int device_count();  // GPUs that this process sees

struct DeviceUse {
  std::uint64_t total = 0, free = 0;    // bytes of the card, as the driver tells
  std::uint64_t share = 0, in_use = 0;  // of this process
};
DeviceUse device_use(Device device);

// New memory, row-major, whose elements are not set.
Tensor empty_on(Device device, DType dtype, const Dims& shape);
// The tensor itself where it is there already; else a packed copy. From the CPU or another GPU.
Tensor to_device(const Tensor& tensor, Device device, std::chrono::milliseconds limit = kDevicePatience);
Tensor to_cpu(const Tensor& tensor, std::chrono::milliseconds limit = kDevicePatience);

}  // namespace troupe
