#include "runtime/group/cuda/cuda_library.h"

#include <dlfcn.h>

#include <string>

namespace troupe {
namespace {

// By the name with the version that this was compiled with, then by the plain one.
void* open_library(const std::string& name, int version, std::string& problem) {
  void* library = ::dlopen((name + "." + std::to_string(version)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && problem.empty()) problem = ::dlerror();
  return library;
}

class Loader {
 public:
  template <class F>
  void find(void* library, const char* name, F& function) {
    function = library == nullptr ? nullptr : reinterpret_cast<F>(::dlsym(library, name));
    if (function == nullptr && problem.empty()) problem = std::string(name) + " is not in the library";
  }
  std::string problem;
};

Result<CudaLibrary> load() {
  Loader load;
  CudaLibrary l{};
  void* cuda = open_library("libcudart.so", CUDART_VERSION / 1000, load.problem);
  void* nccl = open_library("libnccl.so", NCCL_MAJOR, load.problem);
  load.find(cuda, "cudaSetDevice", l.set_device);
  load.find(cuda, "cudaGetDeviceCount", l.device_count);
  load.find(cuda, "cudaRuntimeGetVersion", l.runtime_version);
  load.find(cuda, "cudaMalloc", l.allocate);
  load.find(cuda, "cudaFree", l.release);
  load.find(cuda, "cudaStreamCreateWithFlags", l.stream_create);
  load.find(cuda, "cudaStreamDestroy", l.stream_destroy);
  load.find(cuda, "cudaStreamQuery", l.stream_query);
  load.find(cuda, "cudaMemcpyAsync", l.copy);
  load.find(cuda, "cudaMemcpy2DAsync", l.copy_2d);
  load.find(cuda, "cudaGetErrorString", l.error_text);
  load.find(nccl, "ncclGetVersion", l.nccl_version);
  load.find(nccl, "ncclGetUniqueId", l.unique_id);
  load.find(nccl, "ncclCommInitRankConfig", l.init_rank);
  load.find(nccl, "ncclCommSplit", l.split);
  load.find(nccl, "ncclCommFinalize", l.finalize);
  load.find(nccl, "ncclCommDestroy", l.destroy);
  load.find(nccl, "ncclCommAbort", l.abort);
  load.find(nccl, "ncclCommGetAsyncError", l.async_error);
  load.find(nccl, "ncclGetErrorString", l.nccl_error_text);
  load.find(nccl, "ncclGroupStart", l.group_start);
  load.find(nccl, "ncclGroupEnd", l.group_end);
  load.find(nccl, "ncclAllReduce", l.all_reduce);
  load.find(nccl, "ncclReduce", l.reduce);
  load.find(nccl, "ncclBroadcast", l.broadcast);
  load.find(nccl, "ncclReduceScatter", l.reduce_scatter);
  load.find(nccl, "ncclAllGather", l.all_gather);
  load.find(nccl, "ncclSend", l.send);
  load.find(nccl, "ncclRecv", l.recv);
  if (!load.problem.empty())
    return Error(ErrorKind::infeasible,
                 "groups on GPUs need the CUDA runtime and NCCL on this machine: " + load.problem +
                     "; install them, or name their folder in LD_LIBRARY_PATH");
  int version = 0;
  if (l.runtime_version(&version) != cudaSuccess || version / 1000 != CUDART_VERSION / 1000)
    return Error(ErrorKind::infeasible,
                 "the CUDA runtime of this machine is " + std::to_string(version / 1000) + ", the build's " +
                     std::to_string(CUDART_VERSION / 1000) + ": they must have the same major version");
  return l;
}

}  // namespace

Result<const CudaLibrary*> CudaLibrary::get() {
  static const Result<CudaLibrary> library = load();
  if (!library) return library.error();
  return &*library;
}

}  // namespace troupe
