#include "troupe/object.h"

#include <cstring>

#include "core/tensor/tensor_error.h"
#include "runtime/lane/lane.h"

namespace troupe::detail {
namespace {

// Behind a tensor's elements.
struct TensorTrailer {
  std::int64_t sizes[Dims::kMostDims] = {};
  std::uint32_t mark = kMark;
  std::uint8_t dtype = 0, rank = 0, defined = 0, zero = 0;
  static constexpr std::uint32_t kMark = 0x74656e73;
};

constexpr std::size_t round_up(std::size_t size) { return (size + 7) / 8 * 8; }

}  // namespace

ObjectClient::Space object_space(std::uint64_t size, std::chrono::milliseconds patience) {
  ObjectClient& client = ObjectClient::get();
  if (auto space = client.try_reserve(size)) return space;
  if (auto there = client.attach(); !there) throw_failure(there.error());
  if (auto space = client.try_reserve(size)) return space;
  using State = FutureState<std::shared_ptr<ObjectClient::Space>>;
  auto state = Ref<State>::adopt(new State(default_lane()));
  client.reserve(size, patience.count(), [state](Result<std::shared_ptr<ObjectClient::Space>> space) {
    run_on(state->lane(), [state, space = std::move(space)]() mutable {
      if (!space) return state->fail(space.error());
      state->value.emplace(std::move(*space));
      state->finish_value();
    });
  });
  return std::move(*Future<std::shared_ptr<ObjectClient::Space>>(state).get());
}

void check_storable(const Writer& encoded) {
  if (encoded.has_attachments())
    throw_failure(
        Error(ErrorKind::invalid_argument,
              "an object cannot contain references to objects, nor tensors of a GPU: pass them beside it"));
}

Error not_decodable(const std::exception& why) {
  return Error(ErrorKind::internal, std::string("an object could not be decoded: ") + why.what());
}

void no_object() {
  throw_failure(
      Error(ErrorKind::invalid_argument, "this ObjectRef refers to no object: it was made by ObjectRef()"));
}

Future<ObjectBytes> open_object(const Ref<ObjectHandle>& object, std::chrono::milliseconds patience) {
  auto state = Ref<FutureState<ObjectBytes>>::adopt(new FutureState<ObjectBytes>(default_lane()));
  if (auto bytes = ObjectClient::get().try_open(*object)) {
    run_on(state->lane(), [state, bytes = std::move(*bytes)]() mutable {
      state->value.emplace(std::move(bytes));
      state->finish_value();
    });
    return Future<ObjectBytes>(std::move(state));
  }
  ObjectClient::get().open(object, patience.count(), [state](Result<ObjectBytes> bytes) {
    run_on(state->lane(), [state, bytes = std::move(bytes)]() mutable {
      if (!bytes) return state->fail(bytes.error());
      state->value.emplace(std::move(*bytes));
      state->finish_value();
    });
  });
  return Future<ObjectBytes>(std::move(state));
}

ObjectBytes open_object_now(const Ref<ObjectHandle>& object, std::chrono::milliseconds patience) {
  if (auto bytes = ObjectClient::get().try_open(*object)) return *bytes;
  return open_object(object, patience).get();
}

ObjectClient::Space ObjectFormat<std::string>::write(std::string_view value, std::uint64_t& size,
                                                     std::chrono::milliseconds patience) {
  size = value.size();
  auto space = object_space(size, patience);
  space.write(0, std::as_bytes(std::span(value)));
  return space;
}

std::shared_ptr<const std::string_view> ObjectFormat<std::string>::open(const ObjectBytes& from) {
  return std::make_shared<const std::string_view>(reinterpret_cast<const char*>(from.bytes.data()),
                                                  from.bytes.size());
}

ObjectClient::Space ObjectFormat<Tensor>::write(const Tensor& value, std::uint64_t& size,
                                                std::chrono::milliseconds patience) {
  TensorTrailer trailer;
  Tensor packed;
  std::size_t bytes = 0;
  if (value.defined()) {
    if (!value.device().is_cpu())
      throw WrongDevice("an object cannot hold " + value.describe() + "; put to_cpu(tensor) of it");
    packed = value.contiguous();
    bytes = packed.nbytes();
    trailer.defined = 1;
    trailer.dtype = static_cast<std::uint8_t>(value.dtype());
    trailer.rank = static_cast<std::uint8_t>(value.rank());
    for (int i = 0; i < value.rank(); ++i) trailer.sizes[i] = value.size(i);
  }
  size = round_up(bytes) + sizeof trailer;
  auto space = object_space(size, patience);
  if (bytes != 0) space.write(0, {static_cast<const std::byte*>(packed.data()), bytes});
  space.write(round_up(bytes), std::as_bytes(std::span(&trailer, 1)));
  return space;
}

std::shared_ptr<const Tensor> ObjectFormat<Tensor>::open(const ObjectBytes& from) {
  TensorTrailer trailer;
  if (from.bytes.size() < sizeof trailer) throw DecodeError("an object is too short for a tensor");
  std::memcpy(&trailer, from.bytes.data() + from.bytes.size() - sizeof trailer, sizeof trailer);
  if (trailer.mark != TensorTrailer::kMark || trailer.rank > Dims::kMostDims || !is_dtype(trailer.dtype))
    throw DecodeError("an object is no tensor");
  if (!trailer.defined) return std::make_shared<const Tensor>();
  auto type = static_cast<DType>(trailer.dtype);
  Dims shape{std::span<const std::int64_t>(trailer.sizes, trailer.rank)};
  std::int64_t count = elements(shape, size_of(type));
  if (static_cast<std::size_t>(count) * size_of(type) > from.bytes.size() - sizeof trailer)
    throw DecodeError("a tensor claims more elements than its object has");
  // Mapped read-only: a write through it ends the program, as a write to any constant may.
  auto* data = const_cast<std::byte*>(from.bytes.data());
  return std::make_shared<const Tensor>(
      Tensor::over(data, type, shape, row_major(shape), Device::cpu(), from.owner));
}

}  // namespace troupe::detail
