// OutQueue: frames, each with its header, that wait to be taken by a ring or a socket. A frame never spans
// two chunks, so it can be filled in place; chunks are recycled, so that nothing is allocated per frame.
//
// Owner and thread: one link, under its lane. Memory returned by push stays valid until the frame is popped.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace troupe {

class OutQueue {
 public:
  static constexpr std::size_t kChunk = 64u << 10;

  // Appends a whole frame of `size` zeroed bytes and returns them; nullptr when there is no memory for it.
  std::byte* push(std::size_t size);

  bool empty() const { return bytes_ == 0; }
  std::size_t bytes() const { return bytes_; }

  // The bytes at the front that lie together: headers and payloads, whole frames unless part was popped.
  std::span<const std::byte> front() const;
  std::size_t gather(iovec* into, std::size_t most) const;  // the same for several chunks
  void pop(std::size_t n);
  void clear();

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t capacity = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  std::deque<Chunk> chunks_;
  std::vector<Chunk> spare_;
  std::size_t bytes_ = 0;
};

}  // namespace troupe
