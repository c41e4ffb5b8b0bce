// Tensors of GPUs in messages between processes. On one node the memory itself is shared: a small object in
// the node's store names it, travels as a reference does, and is watched by the exporter, which keeps the
// memory until nobody holds the object any more. Elsewhere, and where a driver does not export that memory,
// the elements travel in the message and are put on the receiver's first GPU.
//
//   exporter                       store                        importer
//   export_tensor ─ object ───────▶ counts ──── reference ─────▶ ImportedTensor::open ─ maps, once an
//   allocation keeps the tensor ◀── gone ───── nobody holds it ◀── drop ─── the last view is gone: unmapped
//
// An importer passes on what it got with the object it got it by. Memory that comes back to its exporter is
// the memory it has.
//
// Any thread but the control thread. Every wait has a limit. Errors: wrong_device, object_lost (the exporter
// has ended), device_memory_exceeded, deadline_exceeded, unavailable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor/tensor_attachment.h"
#include "runtime/objects/object_client.h"

namespace troupe {

// The object that stands for a tensor's memory, and where the tensor lies in the allocation.
struct ExportedTensor {
  Ref<ObjectHandle> object;
  std::uint64_t offset = 0;
};
// None: its elements have to travel.
Result<std::optional<ExportedTensor>> export_tensor(const Tensor& tensor);

// The packed elements, into a message.
Result<void> stage_tensor(const Tensor& tensor, std::byte* to);

// object_lost when the tensor's memory is another process's that has ended.
Result<void> check_exporter(const Tensor& tensor);

// What arrives.
class ImportedTensor final : public TensorAttachment {
 public:
  ImportedTensor(Ref<ObjectHandle> object, std::uint64_t offset)
      : object_(std::move(object)), offset_(offset) {}
  Tensor open(const TensorLayout& layout) override;

 private:
  Ref<ObjectHandle> object_;
  std::uint64_t offset_;
};

// The bytes are the message's: valid while it is being read.
class StagedTensor final : public TensorAttachment {
 public:
  explicit StagedTensor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Tensor open(const TensorLayout& layout) override;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace troupe
