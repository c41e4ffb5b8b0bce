// What a message refers to besides its bytes: an object in shared memory, or a tensor of a GPU
// (core/tensor/tensor_attachment.h). The codec only carries it along.
//
// Owner: counted references. Any thread.
#pragma once

#include <vector>

#include "core/base/ref.h"

namespace troupe {

class Attachment {
 public:
  enum class Kind : unsigned char { object, tensor };
  virtual Kind kind() const = 0;
  virtual void retain() = 0;
  virtual void release() = 0;

 protected:
  ~Attachment() = default;
};

using Attachments = std::vector<Ref<Attachment>>;

}  // namespace troupe
