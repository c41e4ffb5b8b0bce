#include "troupe/device.h"

#include "core/base/clock.h"
#include "runtime/device/tensor_copies.h"
#include "runtime/objects/device_tensors.h"

namespace troupe {
namespace {

Devices& devices() {
  auto found = Devices::get();
  if (!found) throw_failure(found.error());
  return **found;
}

template <class T>
T value_of(Result<T> result) {
  if (!result) throw_failure(result.error());
  return std::move(*result);
}

std::int64_t until(std::chrono::milliseconds limit) {
  return deadline_after(std::min<std::chrono::milliseconds>(limit, kEver));
}

void check(const Tensor& tensor) {
  if (auto there = check_exporter(tensor); !there) throw_failure(there.error());
}

}  // namespace

int device_count() {
  auto found = Devices::get();
  return found ? (*found)->driver().count() : 0;
}

DeviceUse device_use(Device device) {
  auto use = value_of(devices().memory().use(device));
  return {use.total, use.free, use.limit, use.in_use};
}

Tensor empty_on(Device device, DType dtype, const Dims& shape) {
  if (device.is_cpu()) return Tensor::empty(dtype, shape);
  return value_of(devices().memory().empty(device, dtype, shape));
}

Tensor to_device(const Tensor& tensor, Device device, std::chrono::milliseconds limit) {
  if (device.is_cpu()) return to_cpu(tensor, limit);
  check(tensor);
  return value_of(copy_to_device(devices(), tensor, device, until(limit)));
}

Tensor to_cpu(const Tensor& tensor, std::chrono::milliseconds limit) {
  if (tensor.device().is_cpu()) return tensor;
  check(tensor);
  return value_of(copy_to_cpu(devices(), tensor, until(limit)));
}

}  // namespace troupe
