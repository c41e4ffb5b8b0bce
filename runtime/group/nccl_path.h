// Collectives on a GPU's memory, by NCCL. NCCL and the CUDA runtime are opened when the first such group is
// made, so that one executable runs on machines with and without a GPU.
#pragma once

#include <memory>

#include "runtime/group/data_path.h"
#include "runtime/group/mesh.h"

namespace troupe {

// Rank 0's unique id travels in its address. An error where this build has no CUDA, the machine no libraries
// or no such GPU: it says which.
Result<std::unique_ptr<DataPath>> make_nccl_path(int rank, int size, Device device, Mesh& mesh);

}  // namespace troupe
