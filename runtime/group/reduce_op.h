// How collectives combine elements. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor/dtype.h"

namespace troupe {

// Numbers are on the wire: append only.
enum class ReduceOp : std::uint8_t { sum = 0, product = 1, min = 2, max = 3, average = 4 };
inline constexpr int kReduceOps = 5;

const char* to_string(ReduceOp op);

// Integers wrap around; they have no average. Booleans have min (and) and max (or).
bool is_defined(ReduceOp op, DType dtype);

// into[i] = into[i] op from[i]; average adds. Elements of 16-bit floats are combined in f32 and rounded.
void reduce_into(ReduceOp op, DType dtype, void* into, const void* from, std::size_t count);

// The end of an average: into[i] = into[i] / ranks. Floating types only.
void divide(DType dtype, void* into, std::size_t count, int ranks);

// out = blocks[0] op blocks[1] op …, in this order; 16-bit floats are rounded once, at the end.
void reduce_blocks(ReduceOp op, DType dtype, void* out, const std::vector<const std::byte*>& blocks,
                   std::size_t count);

}  // namespace troupe
