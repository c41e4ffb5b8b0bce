#include "core/tensor/tensor_codec.h"

#include <atomic>

#include "core/tensor/tensor_attachment.h"
#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

// How the elements follow. shared: the number of the message's attachment that holds them; device: strides,
// and the number of the attachment that is the tensor.
enum class Form : std::uint8_t { undefined = 0, bytes = 1, shared = 2, device = 3 };

std::atomic<const TensorSharing*> the_sharing{nullptr};

template <class T>
T get(Reader& from) {
  T value;
  from.read(&value, sizeof value);
  return value;
}

}  // namespace

void install_tensor_sharing(const TensorSharing* sharing) { the_sharing = sharing; }

void encode_tensor(Writer& to, const Tensor& tensor) {
  Form form = tensor.defined() ? Form::bytes : Form::undefined;
  Ref<Attachment> shared;
  if (tensor.defined() && !tensor.device().is_cpu()) {
    form = Form::device;
    shared = Ref<Attachment>::adopt(new HeldTensor(tensor));
  } else if (tensor.defined()) {
    const TensorSharing* sharing = the_sharing.load(std::memory_order_acquire);
    if (to.sharing() && sharing != nullptr && tensor.nbytes() >= TensorSharing::kSmallest)
      shared = sharing->place(tensor);
    if (shared) form = Form::shared;
  }
  to.append(&form, 1);
  if (!tensor.defined()) return;
  auto dtype = static_cast<std::uint8_t>(tensor.dtype());
  auto rank = static_cast<std::uint8_t>(tensor.rank());
  to.append(&dtype, 1);
  to.append(&rank, 1);
  to.append(tensor.shape().begin(), rank * sizeof(std::int64_t));
  if (form == Form::device) to.append(tensor.strides().begin(), rank * sizeof(std::int64_t));
  if (shared) {
    auto place = static_cast<std::uint32_t>(to.attach(std::move(shared)));
    to.append(&place, sizeof place);
    return;
  }
  Tensor packed = tensor.contiguous();
  to.append(packed.data(), packed.nbytes());
}

void decode_tensor(Reader& from, Tensor& tensor) {
  auto form = get<Form>(from);
  if (form == Form::undefined) return tensor.reset();
  auto dtype = get<std::uint8_t>(from);
  auto rank = get<std::uint8_t>(from);
  if ((form != Form::bytes && form != Form::shared && form != Form::device) || !is_dtype(dtype) ||
      rank > Dims::kMostDims)
    throw DecodeError("a tensor's header is none");
  std::int64_t sizes[Dims::kMostDims] = {};
  from.read(sizes, rank * sizeof(std::int64_t));
  Dims shape{std::span<const std::int64_t>(sizes, rank)};
  auto type = static_cast<DType>(dtype);
  std::int64_t count = 0;
  try {
    count = elements(shape, size_of(type));
  } catch (const WrongShape& wrong) {
    throw DecodeError(wrong.error().message);
  }
  if (form == Form::device) {
    from.read(sizes, rank * sizeof(std::int64_t));
    TensorLayout layout{type, shape, Dims{std::span<const std::int64_t>(sizes, rank)}};
    Attachment& what = from.attachment(get<std::uint32_t>(from), Attachment::Kind::tensor);
    tensor = static_cast<TensorAttachment&>(what).open(layout);
    return;
  }
  if (form == Form::shared) {
    const TensorSharing* sharing = the_sharing.load(std::memory_order_acquire);
    Attachment& memory = from.attachment(get<std::uint32_t>(from));
    if (sharing == nullptr) throw DecodeError("a tensor lies in shared memory, and there is none");
    tensor = sharing->view(memory, type, shape);
    return;
  }
  // Before memory is taken for it.
  if (static_cast<std::size_t>(count) > from.remaining() / size_of(type))
    throw DecodeError("a tensor claims more elements than bytes");
  Tensor made = Tensor::empty(type, shape);
  from.read(made.data(), made.nbytes());
  tensor = std::move(made);
}

}  // namespace troupe
