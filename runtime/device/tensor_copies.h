// Copies of tensors between the CPU and GPUs, and between GPUs. Those of the CPU's memory go through two
// halves of a page-locked buffer, so that the device moves one while the other is filled or emptied; gaps are
// left out on the way. The caller waits for the end, or for the deadline.
//
// What wrote a tensor has to be finished before it is given here, and what is given back is complete: work on
// streams of the user's own is the user's to wait for.
//
// Any thread. Deadlines as of steady_ns(). Errors: deadline_exceeded (the device, or the staging buffers;
// what is under way keeps the memory it needs), wrong_device, device_memory_exceeded, what the driver says.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"
#include "runtime/device/devices.h"

namespace troupe {

// The tensor itself where it is there already; else a packed copy.
Result<Tensor> copy_to_device(Devices& devices, const Tensor& tensor, Device device, std::int64_t deadline);
Result<Tensor> copy_to_cpu(Devices& devices, const Tensor& tensor, std::int64_t deadline);

// The elements of a GPU's tensor, packed, into memory of the CPU.
Result<void> copy_out(Devices& devices, const Tensor& from, std::byte* to, std::int64_t deadline);
// Packed elements into a contiguous tensor of a GPU.
Result<void> copy_in(Devices& devices, const Tensor& to, const std::byte* from, std::int64_t deadline);

}  // namespace troupe
