// The functions of CUDA that are used here, found in libraries that are opened once a process: the runtime,
// and of the driver's library what the runtime lacks. Included by runtime/device/cuda, runtime/group/cuda and
// tests/gpu only. Any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "core/base/error.h"

namespace troupe {

struct CudaLibrary {
  decltype(&::cudaSetDevice) set_device;
  decltype(&::cudaGetDevice) get_device;
  decltype(&::cudaGetDeviceCount) device_count;
  decltype(&::cudaGetDeviceProperties) properties;
  decltype(&::cudaRuntimeGetVersion) runtime_version;
  decltype(&::cudaMemGetInfo) memory_info;
  cudaError_t (*allocate)(void**, std::size_t);
  decltype(&::cudaFree) release;
  cudaError_t (*allocate_host)(void**, std::size_t, unsigned);
  decltype(&::cudaFreeHost) release_host;
  decltype(&::cudaStreamCreateWithFlags) stream_create;
  decltype(&::cudaStreamDestroy) stream_destroy;
  decltype(&::cudaStreamQuery) stream_query;
  cudaError_t (*event_create)(cudaEvent_t*, unsigned);
  decltype(&::cudaEventDestroy) event_destroy;
  decltype(&::cudaEventRecord) event_record;
  decltype(&::cudaEventQuery) event_query;
  decltype(&::cudaMemcpyAsync) copy;
  decltype(&::cudaMemcpy2DAsync) copy_2d;
  decltype(&::cudaIpcGetMemHandle) ipc_handle;
  decltype(&::cudaIpcOpenMemHandle) ipc_open;
  decltype(&::cudaIpcCloseMemHandle) ipc_close;
  decltype(&::cudaGetLastError) last_error;
  decltype(&::cudaGetErrorString) error_text;
  decltype(&::cuMemGetAddressRange) address_range;  // of the driver's library

  // The error, kind infeasible, names the library or function that is missing, or the version that differs.
  static Result<const CudaLibrary*> get();
};

// Opens libraries and finds functions in them; keeps the first problem.
class LibraryLoader {
 public:
  // By the name with the version that this was compiled with, then by the plain one.
  void* open(const std::string& name, int version);
  template <class F>
  void find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(address(library, name));
  }
  std::string problem;

 private:
  void* address(void* library, const char* name);
};

}  // namespace troupe
