#include "runtime/durable/image.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

#include "core/control/kj_error.h"

namespace troupe {

void ImageWriter::number(std::uint64_t value) {
  auto raw = std::as_bytes(std::span(&value, 1));
  out_.insert(out_.end(), raw.begin(), raw.end());
}

void ImageWriter::bytes(std::span<const std::byte> value) {
  number(value.size());
  out_.insert(out_.end(), value.begin(), value.end());
}

void ImageWriter::answer(const Remembered& value) {
  number(value.error != nullptr);
  if (!value.error) return bytes(value.value);
  capnp::MallocMessageBuilder message;
  write_failure(message.initRoot<wire::Failure>(), *value.error);
  auto words = capnp::messageToFlatArray(message);
  auto raw = words.asBytes();
  bytes(std::as_bytes(std::span(raw.begin(), raw.size())));
}

std::uint64_t ImageReader::number() {
  std::uint64_t value = 0;
  if (from_.size() < sizeof value) {
    good_ = false;
    return 0;
  }
  std::memcpy(&value, from_.data(), sizeof value);
  from_ = from_.subspan(sizeof value);
  return value;
}

std::span<const std::byte> ImageReader::bytes() {
  std::uint64_t size = number();
  if (size > from_.size()) {
    good_ = false;
    return {};
  }
  auto out = from_.first(size);
  from_ = from_.subspan(size);
  return out;
}

RememberedPtr ImageReader::answer() {
  auto out = std::make_shared<Remembered>();
  bool failed = number() != 0;
  auto raw = bytes();
  if (!failed) {
    out->value.assign(raw.begin(), raw.end());
    return out;
  }
  auto words = kj::heapArray<capnp::word>(raw.size() / sizeof(capnp::word));
  if (words.size() != 0) std::memcpy(words.begin(), raw.data(), words.size() * sizeof(capnp::word));
  auto bad = kj::runCatchingExceptions([&] {
    capnp::FlatArrayMessageReader message(words);
    out->error = std::make_unique<const Error>(read_failure(message.getRoot<wire::Failure>()));
  });
  if (bad != nullptr) {
    good_ = false;
    out->error = std::make_unique<const Error>();
  }
  return out;
}

}  // namespace troupe
