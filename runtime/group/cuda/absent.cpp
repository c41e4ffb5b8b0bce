// In place of nccl_path.cpp in builds without CUDA.
#include "runtime/group/nccl_path.h"

namespace troupe {

Result<std::unique_ptr<DataPath>> make_nccl_path(int, int, Device device, Mesh&) {
  return Error(ErrorKind::infeasible,
               "a group on " + to_string(device) +
                   " needs a build with CUDA and NCCL: install both and configure with "
                   "-DTROUPE_CUDA=ON, or use tensors of the CPU");
}

}  // namespace troupe
