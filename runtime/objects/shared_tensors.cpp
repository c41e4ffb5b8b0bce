#include "runtime/objects/shared_tensors.h"

#include "core/tensor/tensor_codec.h"
#include "runtime/objects/object_client.h"

namespace troupe {
namespace {

// For room: rather than that, the elements travel in the message.
constexpr std::int64_t kRoomMs = 1'000;
// Above, they could not, so room is waited for.
constexpr std::size_t kMostInMessage = 32 << 20;
constexpr std::int64_t kLongRoomMs = 60'000, kViewMs = 60'000;

Ref<Attachment> place(const Tensor& tensor) {
  ObjectClient& client = ObjectClient::get();
  std::size_t size = tensor.nbytes();
  auto space = client.try_reserve(size);
  if (!space) {
    auto waited = client.reserve_now(size, size > kMostInMessage ? kLongRoomMs : kRoomMs);
    if (!waited) return nullptr;
    space = std::move(*waited);
  }
  Tensor packed = tensor.contiguous();
  space.write(0, {static_cast<const std::byte*>(packed.data()), size});
  return Ref<Attachment>::adopt(space.leave_unsealed(size).leave());
}

Tensor view(Attachment& memory, DType dtype, const Dims& shape) {
  auto bytes = ObjectClient::get().open_now(static_cast<ObjectHandle&>(memory), kViewMs);
  if (!bytes) throw DecodeError("a tensor's shared memory cannot be read: " + bytes.error().message);
  auto count = static_cast<std::size_t>(elements(shape, size_of(dtype)));
  if (bytes->bytes.size() < count * size_of(dtype))
    throw DecodeError("a tensor claims more elements than bytes");
  // It was made for this message: the receiver may change it, as it may any argument.
  std::byte* data = ObjectClient::get().writable(static_cast<ObjectHandle&>(memory), *bytes);
  if (data == nullptr) throw DecodeError("a tensor's shared memory cannot be mapped");
  return Tensor::over(data, dtype, shape, row_major(shape), Device::cpu(), bytes->owner);
}

constexpr TensorSharing kSharing{&place, &view};

}  // namespace

void share_tensors() { install_tensor_sharing(&kSharing); }

}  // namespace troupe
