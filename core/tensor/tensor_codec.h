// Tensors as arguments and results: written packed, in row-major order, whatever their strides were. Throws
// WrongDevice for a tensor that is not the CPU's; a message that lies ends in DecodeError.
#pragma once

#include "core/codec/archive.h"
#include "core/tensor/tensor.h"

namespace troupe {

void encode_tensor(Writer& to, const Tensor& tensor);
void decode_tensor(Reader& from, Tensor& tensor);

inline void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const Tensor& tensor) {
  encode_tensor(archive.writer(), tensor);
}
inline void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, Tensor& tensor) {
  decode_tensor(archive.reader(), tensor);
}

}  // namespace troupe
