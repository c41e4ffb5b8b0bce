// Tensors in messages between processes of one node lie in its object store: the sender copies the elements
// there, the receiver sees them in place (core/tensor/tensor_codec.h).
#pragma once

namespace troupe {

void share_tensors();  // once; any thread

}  // namespace troupe
