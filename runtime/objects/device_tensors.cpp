#include "runtime/objects/device_tensors.h"

#include <cstring>

#include "core/base/clock.h"
#include "core/base/throws_error.h"
#include "core/codec/buffer.h"
#include "runtime/device/background.h"
#include "runtime/device/tensor_copies.h"
#include "runtime/objects/device_imports.h"

namespace troupe {
namespace {

constexpr std::int64_t kRoomMs = 1'000, kReadMs = 30'000;

// What this process keeps for an object that it watches.
struct Export {
  Tensor tensor;
  std::byte* base = nullptr;  // of the allocation
  ExportRecord record;
};

std::int64_t deadline() { return steady_ns() + Devices::kPatienceNs; }

Span span_of(const Tensor& tensor) {
  return span_of(tensor.shape(), tensor.strides(), size_of(tensor.dtype()));
}

// The last word on a tensor's memory is spoken on the control thread, which may not wait for a device.
std::shared_ptr<const void> keep(Export what) {
  auto* kept = new Export(std::move(what));
  return std::shared_ptr<const void>(
      kept, [](const void* gone) { in_background([gone] { delete static_cast<const Export*>(gone); }); });
}

bool copy_text(std::span<char> to, const std::string& from) {
  if (from.size() >= to.size()) return false;
  std::memcpy(to.data(), from.data(), from.size());
  return true;
}

// Whether a layout lies inside of what may be used.
bool inside(const ExportRecord& record, std::uint64_t offset, const TensorLayout& layout) {
  Span bytes = span_of(layout.shape, layout.strides, size_of(layout.dtype));
  std::int64_t begin = 0, end = 0;
  return record.end <= record.size && offset <= record.size && record.size < (std::uint64_t{1} << 62) &&
         !__builtin_add_overflow(static_cast<std::int64_t>(offset), bytes.begin, &begin) &&
         !__builtin_add_overflow(static_cast<std::int64_t>(offset), bytes.end, &end) &&
         begin >= static_cast<std::int64_t>(record.begin) && end <= static_cast<std::int64_t>(record.end);
}

ExportRecord read_record(ObjectHandle& object) {
  auto bytes = ObjectClient::get().open_now(object, kReadMs);
  if (!bytes) throw ThrowsError(bytes.error());
  ExportRecord record;
  if (bytes->bytes.size() < sizeof record) throw DecodeError("an object is too short for a GPU's tensor");
  std::memcpy(&record, bytes->bytes.data(), sizeof record);
  if (record.mark != ExportRecord::kMark || record.driver[sizeof record.driver - 1] != 0 ||
      record.device[sizeof record.device - 1] != 0)
    throw DecodeError("an object is no GPU's tensor");
  return record;
}

// Its number in this process.
int find_device(Devices& devices, const ExportRecord& record) {
  DeviceDriver& driver = devices.driver();
  int count = driver.count();
  for (int i = 0; std::strcmp(driver.name(), record.driver) == 0 && i < count; ++i) {
    auto identity = driver.identity(i);
    if (identity && *identity == record.device) return i;
  }
  throw ThrowsError(
      Error(ErrorKind::wrong_device, std::string("the tensor lies on ") + record.device +
                                         ", which the receiving process, with " + std::to_string(count) +
                                         " GPUs, does not see: pass to_cpu(tensor), or give the "
                                         "actor that GPU"));
}

Devices& devices_for_arrival(const std::string& what) {
  auto devices = Devices::get();
  if (devices) return **devices;
  throw ThrowsError(
      Error(ErrorKind::wrong_device,
            what + ", and the receiving process sees no GPU: pass to_cpu(tensor), or give the actor one "
                   "with ActorOptions().gpus(1)"));
}

}  // namespace

Result<std::optional<ExportedTensor>> export_tensor(const Tensor& tensor) {
  using Exported = std::optional<ExportedTensor>;
  if (tensor.nbytes() == 0) return Exported();
  auto devices = Devices::get();
  if (!devices) return devices.error();
  Span bytes = span_of(tensor);
  if (auto from = DeviceImports::get().source(tensor.data(), bytes); from.object) {
    if (auto lost = from.object->lost()) return *lost;
    return Exported(ExportedTensor{std::move(from.object), from.offset});
  }
  ObjectClient& client = ObjectClient::get();
  if (!client.attach()) return Exported();
  int index = tensor.device().index;
  if (auto good = (*devices)->memory().check(tensor.device()); !good) return good.error();
  DeviceDriver& driver = (*devices)->driver();
  auto memory = driver.export_memory(index, tensor.data());
  auto identity = driver.identity(index);
  ExportRecord record;
  if (!memory || !identity || !copy_text(record.driver, driver.name()) ||
      !copy_text(record.device, *identity))
    return Exported();
  record.handle = memory->handle;
  record.size = memory->size;
  record.begin = memory->offset + static_cast<std::uint64_t>(bytes.begin);
  record.end = memory->offset + static_cast<std::uint64_t>(bytes.end);
  auto space = client.try_reserve(sizeof record);
  if (!space) {
    auto waited = client.reserve_now(sizeof record, kRoomMs);
    if (!waited) return Exported();
    space = std::move(*waited);
  }
  space.write(0, std::as_bytes(std::span(&record, 1)));
  auto* base = static_cast<std::byte*>(tensor.data()) - memory->offset;
  return Exported(ExportedTensor{space.seal(sizeof record, keep({tensor, base, record})), memory->offset});
}

Result<void> stage_tensor(const Tensor& tensor, std::byte* to) {
  auto devices = Devices::get();
  if (!devices) return devices.error();
  if (auto there = check_exporter(tensor); !there) return there;
  return copy_out(**devices, tensor, to, deadline());
}

Result<void> check_exporter(const Tensor& tensor) {
  if (tensor.device().is_cpu() || tensor.nbytes() == 0) return {};
  auto from = DeviceImports::get().source(tensor.data(), span_of(tensor));
  auto lost = from.object ? from.object->lost() : nullptr;
  if (lost) return *lost;
  return {};
}

Tensor ImportedTensor::open(const TensorLayout& layout) {
  const char* outside = "a GPU's tensor claims more than the memory it was given";
  auto own = std::static_pointer_cast<const Export>(ObjectClient::get().kept(object_->id()));
  if (own) {
    if (!inside(own->record, offset_, layout)) throw DecodeError(outside);
    return Tensor::over(own->base + offset_, layout.dtype, layout.shape, layout.strides, own->tensor.device(),
                        own);
  }
  ExportRecord record = read_record(*object_);
  if (!inside(record, offset_, layout)) throw DecodeError(outside);
  Devices& devices = devices_for_arrival(std::string("the tensor lies on ") + record.device);
  int device = find_device(devices, record);
  auto import = DeviceImports::get().open(devices.driver(), device, record, object_);
  if (!import) {
    Error why = import.error();
    why.message =
        "the tensor's memory on " + std::string(record.device) + " cannot be mapped: " + why.message;
    throw ThrowsError(why);
  }
  return Tensor::over((*import)->base + offset_, layout.dtype, layout.shape, layout.strides,
                      Device::cuda(device), *import);
}

Tensor StagedTensor::open(const TensorLayout& layout) {
  auto bytes =
      static_cast<std::size_t>(elements(layout.shape, size_of(layout.dtype))) * size_of(layout.dtype);
  if (bytes != bytes_.size()) throw DecodeError("a GPU's tensor and its bytes differ in size");
  Devices& devices = devices_for_arrival("a tensor of a GPU has come in a message");
  auto tensor = devices.memory().empty(Device::cuda(0), layout.dtype, layout.shape);
  if (!tensor) throw ThrowsError(tensor.error());
  if (auto done = copy_in(devices, *tensor, bytes_.data(), deadline()); !done)
    throw ThrowsError(done.error());
  return *tensor;
}

}  // namespace troupe
