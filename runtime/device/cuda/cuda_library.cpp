#include "runtime/device/cuda/cuda_library.h"

#include <dlfcn.h>

// Some functions have another name in the library than in programs; the headers have macros for them.
#define TROUPE_TEXT(x) #x
#define TROUPE_NAME(x) TROUPE_TEXT(x)

namespace troupe {
namespace {

Result<CudaLibrary> load() {
  LibraryLoader load;
  CudaLibrary l{};
  void* cuda = load.open("libcudart.so", CUDART_VERSION / 1000);
  load.find(cuda, "cudaSetDevice", l.set_device);
  load.find(cuda, "cudaGetDevice", l.get_device);
  load.find(cuda, "cudaGetDeviceCount", l.device_count);
  load.find(cuda, TROUPE_NAME(cudaGetDeviceProperties), l.properties);
  load.find(cuda, "cudaRuntimeGetVersion", l.runtime_version);
  load.find(cuda, "cudaMemGetInfo", l.memory_info);
  load.find(cuda, "cudaMalloc", l.allocate);
  load.find(cuda, "cudaFree", l.release);
  load.find(cuda, "cudaHostAlloc", l.allocate_host);
  load.find(cuda, "cudaFreeHost", l.release_host);
  load.find(cuda, "cudaStreamCreateWithFlags", l.stream_create);
  load.find(cuda, "cudaStreamDestroy", l.stream_destroy);
  load.find(cuda, "cudaStreamQuery", l.stream_query);
  load.find(cuda, "cudaEventCreateWithFlags", l.event_create);
  load.find(cuda, "cudaEventDestroy", l.event_destroy);
  load.find(cuda, "cudaEventRecord", l.event_record);
  load.find(cuda, "cudaEventQuery", l.event_query);
  load.find(cuda, "cudaMemcpyAsync", l.copy);
  load.find(cuda, "cudaMemcpy2DAsync", l.copy_2d);
  load.find(cuda, "cudaIpcGetMemHandle", l.ipc_handle);
  load.find(cuda, "cudaIpcOpenMemHandle", l.ipc_open);
  load.find(cuda, "cudaIpcCloseMemHandle", l.ipc_close);
  load.find(cuda, "cudaGetLastError", l.last_error);
  load.find(cuda, "cudaGetErrorString", l.error_text);
  void* driver = load.open("libcuda.so", 1);
  load.find(driver, TROUPE_NAME(cuMemGetAddressRange), l.address_range);
  if (!load.problem.empty())
    return Error(ErrorKind::infeasible,
                 "GPUs need the CUDA runtime and driver on this machine: " + load.problem +
                     "; install them, or name their folder in LD_LIBRARY_PATH");
  int version = 0;
  if (l.runtime_version(&version) != cudaSuccess || version / 1000 != CUDART_VERSION / 1000)
    return Error(ErrorKind::infeasible,
                 "the CUDA runtime of this machine is " + std::to_string(version / 1000) + ", the build's " +
                     std::to_string(CUDART_VERSION / 1000) + ": they must have the same major version");
  return l;
}

}  // namespace

void* LibraryLoader::open(const std::string& name, int version) {
  void* library = ::dlopen((name + "." + std::to_string(version)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && problem.empty()) problem = ::dlerror();
  return library;
}

void* LibraryLoader::address(void* library, const char* name) {
  void* found = library == nullptr ? nullptr : ::dlsym(library, name);
  if (found == nullptr && problem.empty()) problem = std::string(name) + " is not in the library";
  return found;
}

Result<const CudaLibrary*> CudaLibrary::get() {
  static const Result<CudaLibrary> library = load();
  if (!library) return library.error();
  return &*library;
}

}  // namespace troupe
