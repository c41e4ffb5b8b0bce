// Tensors as arguments and results. Those of the CPU are written packed, in row-major order, whatever their
// strides were. Those of a GPU are attached (core/tensor/tensor_attachment.h) and keep their strides. A
// message that lies ends in DecodeError; see there what else reading a GPU's tensor throws.
#pragma once

#include "core/codec/archive.h"
#include "core/tensor/tensor.h"

namespace troupe {

// Shared memory for the elements of tensors in messages (Writer::sharing), installed by the runtime. Without
// it, or when it has no room, the elements are part of the message.
struct TensorSharing {
  static constexpr std::size_t kSmallest = 64 << 10;  // bytes worth it
  // Copies the elements, row-major, into shared memory; null: no room. Any thread.
  Ref<Attachment> (*place)(const Tensor& tensor);
  // The memory, as a tensor of these elements that keeps it; throws DecodeError when it is too small.
  Tensor (*view)(Attachment& memory, DType dtype, const Dims& shape);
};
void install_tensor_sharing(const TensorSharing* sharing);  // lives for ever

void encode_tensor(Writer& to, const Tensor& tensor);
void decode_tensor(Reader& from, Tensor& tensor);

inline void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const Tensor& tensor) {
  encode_tensor(archive.writer(), tensor);
}
inline void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, Tensor& tensor) {
  decode_tensor(archive.reader(), tensor);
}

}  // namespace troupe
