// How the remembered answers and the object's state lie in a snapshot. Pure; any thread.
#pragma once

#include "runtime/durable/core.h"

namespace troupe {

class ImageWriter {
 public:
  void number(std::uint64_t value);
  void bytes(std::span<const std::byte> value);
  void answer(const Remembered& value);
  Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

// Never reads past the end; what is short makes it not good, and what it then gives is empty.
class ImageReader {
 public:
  explicit ImageReader(std::span<const std::byte> from) : from_(from) {}
  bool good() const { return good_; }
  std::uint64_t number();
  std::span<const std::byte> bytes();
  RememberedPtr answer();  // never null

 private:
  std::span<const std::byte> from_;
  bool good_ = true;
};

}  // namespace troupe
