// The functions of the CUDA runtime and of NCCL that are used here, found in libraries that are opened once a
// process. Included by files of this folder only. Any thread.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "core/base/error.h"

namespace troupe {

struct CudaLibrary {
  cudaError_t (*set_device)(int);
  cudaError_t (*device_count)(int*);
  cudaError_t (*runtime_version)(int*);
  cudaError_t (*allocate)(void**, std::size_t);
  cudaError_t (*release)(void*);
  cudaError_t (*stream_create)(cudaStream_t*, unsigned);
  cudaError_t (*stream_destroy)(cudaStream_t);
  cudaError_t (*stream_query)(cudaStream_t);
  cudaError_t (*copy)(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
  cudaError_t (*copy_2d)(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t,
                         cudaMemcpyKind, cudaStream_t);
  const char* (*error_text)(cudaError_t);

  decltype(&ncclGetVersion) nccl_version;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommSplit) split;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclGetErrorString) nccl_error_text;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;

  // The error, kind infeasible, names the library or function that is missing, or the version that differs.
  static Result<const CudaLibrary*> get();
};

}  // namespace troupe
