// What a message refers to besides its bytes: an object in shared memory. The codec only carries it along;
// the runtime knows what it is.
//
// Owner: counted references. Any thread.
#pragma once

#include <vector>

#include "core/base/ref.h"

namespace troupe {

class Attachment {
 public:
  virtual void retain() = 0;
  virtual void release() = 0;

 protected:
  ~Attachment() = default;
};

using Attachments = std::vector<Ref<Attachment>>;

}  // namespace troupe
