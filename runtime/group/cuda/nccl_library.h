// The functions of NCCL that are used here, found in its library, which is opened once a process. Included by
// files of this folder and tests/gpu only. Any thread.
#pragma once

#include <nccl.h>

#include "core/base/error.h"

namespace troupe {

struct NcclLibrary {
  decltype(&ncclGetVersion) nccl_version;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclGetErrorString) error_text;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;

  // The error, kind infeasible, names the library or function that is missing.
  static Result<const NcclLibrary*> get();
};

}  // namespace troupe
