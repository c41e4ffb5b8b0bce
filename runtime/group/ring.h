// The two halves of a ring all-reduce, on memory that is cut into one block for each rank. Blocks may be
// empty and of any size. Thread: the communicator's. All return false when the mesh has failed.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/dtype.h"
#include "runtime/group/mesh.h"
#include "runtime/group/reduce_op.h"

namespace troupe {

struct Ring {
  Mesh& mesh;
  int rank, size;
  std::uint64_t tag;
  std::byte* memory;
  std::vector<std::size_t> bounds;  // bytes: block i lies between bounds[i] and bounds[i + 1]

  // Afterwards block `rank` holds the combination of that block of all ranks; the others hold partial ones.
  bool reduce_scatter(ReduceOp op, DType dtype);
  // Each rank has block `rank`; afterwards each has all.
  bool all_gather();
};

// Bounds of so many elements cut into blocks of (almost) one size.
std::vector<std::size_t> even_bounds(std::int64_t elements, std::size_t element_bytes, int size);
// Bounds of blocks of these sizes.
std::vector<std::size_t> bounds_of(const std::vector<std::int64_t>& counts, std::size_t element_bytes);

// From the root along the ranks, piece by piece.
bool chain_broadcast(Mesh& mesh, int rank, int size, std::uint64_t tag, int root, std::byte* memory,
                     std::size_t bytes);

}  // namespace troupe
