// Mapping owns a range of memory made by mmap and unmaps it. Movable, not shared; any thread, one at a time.
#pragma once

#include <cstddef>
#include <utility>

#include "core/base/error.h"

namespace troupe {

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  // Maps the first `size` bytes of `fd`, readable and perhaps writable, shared with whoever else maps it. The
  // descriptor may be closed afterwards. The caller has made sure that the file is that long and cannot
  // shrink.
  static Result<Mapping> shared(int fd, std::size_t size, bool writable = true);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace troupe
