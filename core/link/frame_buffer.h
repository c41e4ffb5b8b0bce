// FrameBuffer: 8-aligned bytes that grow at the end and are taken from the front; not zeroed. One owner, one
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace troupe {

class FrameBuffer {
 public:
  FrameBuffer() = default;
  FrameBuffer(FrameBuffer&& other) noexcept { swap(other); }
  FrameBuffer& operator=(FrameBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* begin() const { return reinterpret_cast<std::byte*>(words_.get()) + begin_; }
  std::byte* end() const { return reinterpret_cast<std::byte*>(words_.get()) + end_; }
  std::size_t size() const { return end_ - begin_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t room() const { return capacity_ - end_; }

  // Takes `n` bytes, a multiple of 8, from the front; they stay where they are until clear or make_room.
  void drop(std::size_t n) { begin_ += n; }
  void grow(std::size_t n) { end_ += n; }  // counts n <= room() bytes written at end()
  void clear() { begin_ = end_ = 0; }

  // At least `n` bytes of room. Moves or replaces the bytes; `old` then receives the memory they were in, so
  // that somebody who still reads it may keep it. In place only when `may_move`.
  void make_room(std::size_t n, bool may_move, FrameBuffer& old) {
    if (room() >= n) return;
    if (may_move && capacity_ - size() >= n) {
      std::memmove(reinterpret_cast<std::byte*>(words_.get()), begin(), size());
      end_ = size();
      begin_ = 0;
      return;
    }
    std::size_t capacity = std::max<std::size_t>(capacity_, 256);
    while (capacity - size() < n) capacity *= 2;
    FrameBuffer bigger;
    bigger.words_ = std::make_unique_for_overwrite<std::uint64_t[]>(capacity / 8);
    bigger.capacity_ = capacity;
    if (size()) std::memcpy(bigger.begin(), begin(), size());
    bigger.end_ = size();
    swap(bigger);
    old = std::move(bigger);
  }

  void append(std::span<const std::byte> bytes) {
    FrameBuffer old;
    make_room(bytes.size(), true, old);
    if (!bytes.empty()) std::memcpy(end(), bytes.data(), bytes.size());
    end_ += bytes.size();
  }

 private:
  void swap(FrameBuffer& other) {
    std::swap(words_, other.words_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
  }

  std::unique_ptr<std::uint64_t[]> words_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace troupe
