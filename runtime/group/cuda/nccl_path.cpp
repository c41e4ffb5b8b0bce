// Nothing here blocks: the communicator of NCCL is a non-blocking one, work goes to a stream of its own, and
// the communicator's thread looks after both until they are done, the deadline passes or abort() was called.
#include "runtime/group/nccl_path.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "runtime/device/cuda/cuda_library.h"
#include "runtime/group/cuda/nccl_library.h"
#include "runtime/group/ring.h"

namespace troupe {
namespace {

constexpr auto kFirstPause = std::chrono::microseconds(5), kLongestPause = std::chrono::microseconds(500);

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::i8:
      return ncclInt8;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u32:
      return ncclUint32;
    case DType::u64:
      return ncclUint64;
    default:  // u8, and booleans, of which only min and max are combined; 16-bit integers: see fault()
      return ncclUint8;
  }
}

ncclRedOp_t op_of(ReduceOp op) {
  constexpr ncclRedOp_t kOps[kReduceOps] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
  return kOps[static_cast<std::size_t>(op)];
}

class NcclPath final : public DataPath {
 public:
  NcclPath(const CudaLibrary& library, const NcclLibrary& nccl, int rank, int size, Device device, Mesh& mesh)
      : library_(library), nccl_(nccl), rank_(rank), size_(size), device_(device), mesh_(mesh) {}

  ~NcclPath() override {
    library_.set_device(device_.index);
    // A communicator with work under way cannot be destroyed without waiting for it.
    if (communicator_ != nullptr) nccl_.abort(communicator_);
    if (stream_ != nullptr) library_.stream_destroy(stream_);
  }

  Device device() const override { return device_; }

  Result<std::string> address() override {
    if (!cuda(library_.set_device(device_.index), "cudaSetDevice") ||
        !cuda(library_.stream_create(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"))
      return failure_;
    if (rank_ != 0) return std::string();
    ncclUniqueId id;
    if (!nccl(nccl_.unique_id(&id), "ncclGetUniqueId")) return failure_;
    return std::string(id.internal, sizeof id.internal);
  }

  Result<void> connect(const std::vector<std::string>& addresses) override {
    ncclUniqueId id;
    if (addresses[0].size() != sizeof id.internal)
      return Error(ErrorKind::internal, "rank 0 gave no unique id of NCCL");
    std::memcpy(id.internal, addresses[0].data(), sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (!cuda(library_.set_device(device_.index), "cudaSetDevice") ||
        !nccl(nccl_.init_rank(&communicator_, size_, id, rank_, &config), "ncclCommInitRankConfig") ||
        !settled())
      return failure();
    return {};
  }

  std::string fault(const Operation& operation) const override {
    if (!reduces(operation.kind) || !operation.in.defined()) return "";
    DType dtype = operation.in.dtype();
    if (dtype != DType::i16 && dtype != DType::u16) return "";
    return std::string("NCCL does not combine ") + to_string(dtype) +
           ": use 8, 32 or 64 bits, or tensors of the CPU";
  }

  Tensor pack(const Tensor& from) override {
    Tensor packed = packed_like(from);
    unpack(packed, from);
    return packed;
  }
  Tensor packed_like(const Tensor& tensor) override {
    void* memory = nullptr;
    std::size_t bytes = std::max<std::size_t>(tensor.nbytes(), 1);
    library_.set_device(device_.index);
    cudaError_t error = library_.allocate(&memory, bytes);
    if (error != cudaSuccess)
      throw std::runtime_error(to_string(device_) + " has no " + std::to_string(bytes) +
                               " bytes for a packed copy: " + library_.error_text(error));
    std::shared_ptr<void> owner(memory, library_.release);
    return Tensor::over(memory, tensor.dtype(), tensor.shape(), row_major(tensor.shape()), device_, owner);
  }
  void unpack(const Tensor& to, const Tensor& from) override {
    library_.set_device(device_.index);
    if (to.numel() != 0)
      copy_dim(to, from, 0, static_cast<std::byte*>(to.data()), static_cast<const std::byte*>(from.data()));
    if (!wait_for_stream())
      throw std::runtime_error("a copy on " + to_string(device_) + " failed: " + failure().message);
  }

  bool run(const Plan& plan) override {
    if (!cuda(library_.set_device(device_.index), "cudaSetDevice")) return false;
    return submit(plan) && settled() && wait_for_stream();
  }
  Error failure() const override { return failure_; }
  void abort() override { aborted_.store(true, std::memory_order_release); }

 private:
  // Keeps the first error; true when there is none.
  bool cuda(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return true;
    return fail(std::string(what) + ": " + library_.error_text(error));
  }
  bool nccl(ncclResult_t result, const char* what) {
    if (result == ncclSuccess || result == ncclInProgress) return true;
    return fail(std::string(what) + ": " + nccl_.error_text(result));
  }
  bool fail(const std::string& what) {
    if (failure_.message.empty())
      failure_ = Error(ErrorKind::unavailable,
                       "rank " + std::to_string(rank_) + " on " + to_string(device_) + ": " + what);
    return false;
  }

  // False when waiting has to end: an abort, or the deadline, which the mesh keeps. The communicator of NCCL
  // is aborted then, which also ends its kernels.
  bool may_wait() {
    if (mesh_.deadline() <= steady_ns())
      mesh_.abort(Error(ErrorKind::deadline_exceeded,
                        "the deadline of an operation passed on " + to_string(device_)));
    if (!mesh_.failed() && !aborted_.load(std::memory_order_acquire)) return true;
    if (communicator_ != nullptr) nccl_.abort(std::exchange(communicator_, nullptr));
    return fail("aborted");
  }

  template <class Done>
  bool poll(Done done) {
    for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      if (std::optional<bool> result = done()) return *result;
      if (!may_wait()) return false;
      std::this_thread::sleep_for(pause);
    }
  }
  // What was asked of NCCL has been taken up.
  bool settled() {
    return poll([&]() -> std::optional<bool> {
      ncclResult_t state = ncclSuccess;
      if (communicator_ == nullptr) return fail("the communicator of NCCL is gone");
      if (!nccl(nccl_.async_error(communicator_, &state), "ncclCommGetAsyncError") || !nccl(state, "NCCL"))
        return false;
      if (state == ncclInProgress) return std::nullopt;
      return true;
    });
  }
  bool wait_for_stream() {
    return poll([&]() -> std::optional<bool> {
      cudaError_t state = library_.stream_query(stream_);
      if (state != cudaErrorNotReady) return cuda(state, "the GPU's work");
      ncclResult_t error = ncclSuccess;
      if (communicator_ != nullptr &&
          !nccl(nccl_.async_error(communicator_, &error), "ncclCommGetAsyncError"))
        return false;
      if (!nccl(error, "NCCL")) return false;
      return std::nullopt;
    });
  }

  void copy_dim(const Tensor& to, const Tensor& from, int dim, std::byte* target, const std::byte* source) {
    std::size_t unit = size_of(to.dtype());
    auto bytes = static_cast<std::int64_t>(unit);
    if (to.rank() == 0) {
      cuda(library_.copy(target, source, unit, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
      return;
    }
    std::int64_t n = to.shape()[dim], to_step = to.strides()[dim], from_step = from.strides()[dim];
    bool last = dim + 1 == to.rank();
    if (last && to_step == 1 && from_step == 1) {
      cuda(library_.copy(target, source, unit * static_cast<std::size_t>(n), cudaMemcpyDeviceToDevice,
                         stream_),
           "cudaMemcpyAsync");
    } else if (last && to_step > 0 && from_step > 0) {
      cuda(library_.copy_2d(target, unit * static_cast<std::size_t>(to_step), source,
                            unit * static_cast<std::size_t>(from_step), unit, static_cast<std::size_t>(n),
                            cudaMemcpyDeviceToDevice, stream_),
           "cudaMemcpy2DAsync");
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        std::byte* t = target + i * to_step * bytes;
        const std::byte* s = source + i * from_step * bytes;
        if (last)
          cuda(library_.copy(t, s, unit, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
        else
          copy_dim(to, from, dim + 1, t, s);
      }
    }
  }

  bool submit(const Plan& plan) {
    const Operation& operation = *plan.operation;
    auto me = static_cast<std::size_t>(rank_);
    auto count = static_cast<std::size_t>(std::max(plan.in_counts[me], plan.out_counts[me]));
    auto in_count = static_cast<std::size_t>(plan.in_counts[me]),
         out_count = static_cast<std::size_t>(plan.out_counts[me]);
    std::size_t unit = size_of(plan.dtype);
    ncclDataType_t type = type_of(plan.dtype);
    ncclRedOp_t op = op_of(operation.op);
    int root = operation.root;
    switch (operation.kind) {
      case OpKind::connect:
      case OpKind::barrier:
      case OpKind::split:
        return true;  // the check was one
      case OpKind::broadcast:
        return nccl(nccl_.broadcast(plan.in, plan.out, count * unit, ncclUint8, root, communicator_, stream_),
                    "ncclBroadcast");
      case OpKind::all_reduce:
        return nccl(nccl_.all_reduce(plan.in, plan.out, count, type, op, communicator_, stream_),
                    "ncclAllReduce");
      case OpKind::reduce:
        return nccl(nccl_.reduce(plan.in, plan.out, count, type, op, root, communicator_, stream_),
                    "ncclReduce");
      case OpKind::send:
        return nccl(nccl_.send(plan.in, in_count * unit, ncclUint8, root, communicator_, stream_),
                    "ncclSend");
      case OpKind::recv:
        return nccl(nccl_.recv(plan.out, out_count * unit, ncclUint8, root, communicator_, stream_),
                    "ncclRecv");
      case OpKind::reduce_scatter:
        if (even(plan.out_counts))
          return nccl(nccl_.reduce_scatter(plan.in, plan.out, out_count, type, op, communicator_, stream_),
                      "ncclReduceScatter");
        return grouped(
            [&](int r, const auto& bounds) {
              return nccl(nccl_.reduce(plan.in + bounds[r], plan.out, (bounds[r + 1] - bounds[r]) / unit,
                                       type, op, r, communicator_, stream_),
                          "ncclReduce");
            },
            bounds_of(plan.out_counts, unit));
      case OpKind::all_gather:
        if (even(plan.in_counts))
          return nccl(nccl_.all_gather(plan.in, plan.out, in_count * unit, ncclUint8, communicator_, stream_),
                      "ncclAllGather");
        return grouped(
            [&](int r, const auto& bounds) {
              return nccl(nccl_.broadcast(plan.in, plan.out + bounds[r], bounds[r + 1] - bounds[r], ncclUint8,
                                          r, communicator_, stream_),
                          "ncclBroadcast");
            },
            bounds_of(plan.in_counts, unit));
      case OpKind::gather:
        return grouped(
            [&](int r, const auto& bounds) {
              std::size_t bytes = bounds[r + 1] - bounds[r];
              return (r != rank_ || give(plan.in, bytes, root)) &&
                     (rank_ != root || take(plan.out + bounds[r], bytes, r));
            },
            bounds_of(plan.in_counts, unit));
      case OpKind::scatter:
        return grouped(
            [&](int r, const auto& bounds) {
              std::size_t bytes = bounds[r + 1] - bounds[r];
              return (rank_ != root || give(plan.in + bounds[r], bytes, r)) &&
                     (r != rank_ || take(plan.out, bytes, root));
            },
            bounds_of(plan.out_counts, unit));
      case OpKind::all_to_all: {
        auto takes = bounds_of(plan.recv_counts, unit);
        return grouped(
            [&](int r, const auto& bounds) {
              auto i = static_cast<std::size_t>(r);
              return give(plan.in + bounds[i], bounds[i + 1] - bounds[i], r) &&
                     take(plan.out + takes[i], takes[i + 1] - takes[i], r);
            },
            bounds_of(plan.send_counts, unit));
      }
    }
    return true;
  }

  // f for each rank, as one submission.
  template <class F>
  bool grouped(F f, const std::vector<std::size_t>& bounds) {
    if (!nccl(nccl_.group_start(), "ncclGroupStart")) return false;
    bool good = true;
    for (int r = 0; good && r < size_; ++r) good = f(r, Bounds{bounds});
    return nccl(nccl_.group_end(), "ncclGroupEnd") && good;
  }
  struct Bounds {
    const std::vector<std::size_t>& bounds;
    template <class I>
    std::size_t operator[](I i) const {
      return bounds[static_cast<std::size_t>(i)];
    }
  };
  bool give(const std::byte* from, std::size_t bytes, int to) {
    return bytes == 0 || nccl(nccl_.send(from, bytes, ncclUint8, to, communicator_, stream_), "ncclSend");
  }
  bool take(std::byte* to, std::size_t bytes, int from) {
    return bytes == 0 || nccl(nccl_.recv(to, bytes, ncclUint8, from, communicator_, stream_), "ncclRecv");
  }
  static bool even(const std::vector<std::int64_t>& counts) {
    return std::all_of(counts.begin(), counts.end(), [&](std::int64_t c) { return c == counts[0]; });
  }

  const CudaLibrary& library_;
  const NcclLibrary& nccl_;
  const int rank_, size_;
  const Device device_;
  Mesh& mesh_;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::atomic<bool> aborted_{false};
  Error failure_;
};

}  // namespace

Result<std::unique_ptr<DataPath>> make_nccl_path(int rank, int size, Device device, Mesh& mesh) {
  auto library = CudaLibrary::get();
  if (!library) return library.error();
  auto nccl = NcclLibrary::get();
  if (!nccl) return nccl.error();
  int count = 0;
  cudaError_t error = (*library)->device_count(&count);
  if (error != cudaSuccess || device.index < 0 || device.index >= count)
    return Error(ErrorKind::infeasible,
                 "rank " + std::to_string(rank) + " is to work on " + to_string(device) +
                     ", but this process sees " + std::to_string(count) + " GPUs" +
                     (error == cudaSuccess ? "" : std::string(" (") + (*library)->error_text(error) + ")"));
  return std::unique_ptr<DataPath>(std::make_unique<NcclPath>(**library, **nccl, rank, size, device, mesh));
}

}  // namespace troupe
