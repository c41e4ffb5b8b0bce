// A tensor of a GPU inside of a message. Its elements stay where they are: the message's bytes describe it
// and name an attachment. Inside of a process that is the tensor itself; what sends the message elsewhere
// puts something in its place (runtime/objects/travel.h), and what arrives makes a tensor of it.
//
// Owner: counted references. Any thread.
#pragma once

#include <atomic>

#include "core/codec/attachment.h"
#include "core/tensor/tensor.h"

namespace troupe {

struct TensorLayout {
  DType dtype = DType::f32;
  Dims shape, strides;  // as the sender had them
};

class TensorAttachment : public Attachment {
 public:
  Kind kind() const final { return Kind::tensor; }
  void retain() final { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() final {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // The tensor. Throws ThrowsError, e.g. of kind wrong_device, object_lost, device_memory_exceeded;
  // DecodeError for a layout that is not of this memory.
  virtual Tensor open(const TensorLayout& layout) = 0;

 protected:
  TensorAttachment() = default;
  virtual ~TensorAttachment() = default;

 private:
  std::atomic<int> count_{1};
};

// The tensor itself, on the sender's side. No other kind of TensorAttachment is ever sent.
class HeldTensor final : public TensorAttachment {
 public:
  explicit HeldTensor(Tensor tensor) : tensor(std::move(tensor)) {}
  Tensor open(const TensorLayout&) override { return tensor; }
  const Tensor tensor;
};

}  // namespace troupe
