#include "core/codec/buffer.h"

#include <algorithm>

namespace troupe {

void Writer::grow(std::size_t size) {
  std::size_t wanted = std::max({size_ + size, capacity_ * 2, std::size_t{256}});
  auto bigger = std::make_unique_for_overwrite<std::byte[]>(wanted);
  if (size_ != 0) std::memcpy(bigger.get(), data_.get(), size_);
  data_ = std::move(bigger);
  capacity_ = wanted;
}

void Reader::fail() { throw DecodeError("a message is shorter than its type needs"); }

void Reader::no_attachment() { throw DecodeError("a message refers to an object that it does not bring"); }

}  // namespace troupe
