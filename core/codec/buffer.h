// Byte buffers of the codec. A Writer appends to memory that it keeps between uses; a Reader walks over bytes
// that somebody else owns. A Reader never reads past its end: it throws DecodeError, which ends the one
// message only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>

namespace troupe {

class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Writer {
 public:
  void append(const void* data, std::size_t size) {
    if (size > capacity_ - size_) grow(size);
    if (size != 0) std::memcpy(data_.get() + size_, data, size);
    size_ += size;
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }
  void clear() { size_ = 0; }
  // Gives big memory back, so that one large message does not stay paid for.
  void trim(std::size_t keep = 64 << 10) {
    if (capacity_ > keep) *this = Writer();
    size_ = 0;
  }

 private:
  void grow(std::size_t size);

  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  void read(void* to, std::size_t size) {
    if (size > remaining()) fail();
    if (size != 0) std::memcpy(to, at_, size);
    at_ += size;
  }
  std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }

 private:
  [[noreturn]] static void fail();

  const std::byte* at_;
  const std::byte* end_;
};

}  // namespace troupe
