#include "runtime/device/piece_walk.h"

#include <algorithm>

namespace troupe {

PieceWalk::PieceWalk(const Dims& shape, const Dims& strides, std::size_t element_bytes) {
  auto unit = static_cast<std::int64_t>(element_bytes);
  ended_ = elements(shape) == 0;
  // Dimensions of one element go; neighbours without a gap are one.
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    std::int64_t step = strides[i] * unit;
    if (rank_ > 0 && step_[rank_ - 1] == step * shape[i]) {
      size_[rank_ - 1] *= shape[i];
      step_[rank_ - 1] = step;
    } else {
      size_[rank_] = shape[i];
      step_[rank_++] = step;
    }
  }
  run_ = element_bytes;
  if (rank_ > 0 && step_[rank_ - 1] == unit) run_ *= static_cast<std::size_t>(size_[--rank_]);
}

bool PieceWalk::next(std::size_t room, Piece& out) {
  if (ended_) return false;
  out = {};
  for (int i = 0; i < rank_; ++i) out.offset += index_[i] * step_[i];
  out.offset += static_cast<std::int64_t>(taken_);
  out.rows = 1;
  out.width = out.pitch = std::min(run_ - taken_, room);
  if (out.width < run_) {
    taken_ += out.width;
    if (taken_ < run_) return true;
    taken_ = 0;
  } else if (rank_ > 0) {
    std::int64_t step = step_[rank_ - 1], left = size_[rank_ - 1] - index_[rank_ - 1];
    if (step >= static_cast<std::int64_t>(run_) && step <= kLargestPitch) {
      out.rows = std::min(static_cast<std::size_t>(left), room / run_);
      out.pitch = static_cast<std::size_t>(step);
    }
  }
  auto by = static_cast<std::int64_t>(out.rows);
  for (int i = rank_ - 1;; --i, by = 1) {
    if (i < 0) {
      ended_ = true;
      return true;
    }
    index_[i] += by;
    if (index_[i] < size_[i]) return true;
    index_[i] = 0;
  }
}

Span span_of(const Dims& shape, const Dims& strides, std::size_t element_bytes) {
  Span out;
  if (elements(shape) == 0) return out;
  for (int i = 0; i < shape.size(); ++i) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach)) reach = INT64_MAX / 32;
    std::int64_t& end = reach < 0 ? out.begin : out.end;
    if (__builtin_add_overflow(end, reach, &end)) end = reach < 0 ? INT64_MIN / 32 : INT64_MAX / 32;
  }
  auto unit = static_cast<std::int64_t>(element_bytes);
  if (__builtin_mul_overflow(out.begin, unit, &out.begin)) out.begin = INT64_MIN;
  if (__builtin_mul_overflow(out.end + 1, unit, &out.end)) out.end = INT64_MAX;
  return out;
}

}  // namespace troupe
