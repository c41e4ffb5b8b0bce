#include "runtime/group/cuda/nccl_library.h"

#include "runtime/device/cuda/cuda_library.h"

namespace troupe {
namespace {

Result<NcclLibrary> load() {
  LibraryLoader load;
  NcclLibrary l{};
  void* nccl = load.open("libnccl.so", NCCL_MAJOR);
  load.find(nccl, "ncclGetVersion", l.nccl_version);
  load.find(nccl, "ncclGetUniqueId", l.unique_id);
  load.find(nccl, "ncclCommInitRankConfig", l.init_rank);
  load.find(nccl, "ncclCommAbort", l.abort);
  load.find(nccl, "ncclCommGetAsyncError", l.async_error);
  load.find(nccl, "ncclGetErrorString", l.error_text);
  load.find(nccl, "ncclGroupStart", l.group_start);
  load.find(nccl, "ncclGroupEnd", l.group_end);
  load.find(nccl, "ncclAllReduce", l.all_reduce);
  load.find(nccl, "ncclReduce", l.reduce);
  load.find(nccl, "ncclBroadcast", l.broadcast);
  load.find(nccl, "ncclReduceScatter", l.reduce_scatter);
  load.find(nccl, "ncclAllGather", l.all_gather);
  load.find(nccl, "ncclSend", l.send);
  load.find(nccl, "ncclRecv", l.recv);
  if (load.problem.empty()) return l;
  return Error(ErrorKind::infeasible, "groups on GPUs need NCCL on this machine: " + load.problem +
                                          "; install it, or name its folder in LD_LIBRARY_PATH");
}

}  // namespace

Result<const NcclLibrary*> NcclLibrary::get() {
  static const Result<NcclLibrary> library = load();
  if (!library) return library.error();
  return &*library;
}

}  // namespace troupe
