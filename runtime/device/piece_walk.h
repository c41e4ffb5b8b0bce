// Cuts a tensor's elements, in row-major order, into pieces that a device copies at once: rows of one width
// and one pitch. The packed side is not known here: it goes on by as many bytes as were taken. A pure
// function of the layout. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor/shape.h"

namespace troupe {

class PieceWalk {
 public:
  struct Piece {
    std::int64_t offset = 0;  // bytes, from the element with all indices zero
    std::size_t width = 0, rows = 0, pitch = 0;
    std::size_t bytes() const { return width * rows; }
  };

  PieceWalk(const Dims& shape, const Dims& strides, std::size_t element_bytes);
  // The next piece, of at most `room` bytes (at least one element's); false at the end.
  bool next(std::size_t room, Piece& out);

 private:
  // Beyond it a row is a piece of its own, as vendors limit pitches.
  static constexpr std::int64_t kLargestPitch = 1 << 30;

  int rank_ = 0;  // of the dimensions around a run of bytes
  std::int64_t size_[Dims::kMostDims] = {}, step_[Dims::kMostDims] = {};  // step: bytes
  std::int64_t index_[Dims::kMostDims] = {};
  std::size_t run_ = 0, taken_ = 0;  // bytes that lie together; of which the current piece has some already
  bool ended_ = false;
};

// The bytes that a tensor's elements span, from the element with all indices zero: [begin, end).
struct Span {
  std::int64_t begin = 0, end = 0;
};
Span span_of(const Dims& shape, const Dims& strides, std::size_t element_bytes);

}  // namespace troupe
