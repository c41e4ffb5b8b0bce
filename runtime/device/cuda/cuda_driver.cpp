// CUDA behind DeviceDriver: each member is one or two calls. The thread's current device is put back, since
// it may be the user's choice.
#include <cstring>

#include "runtime/device/cuda/cuda_library.h"
#include "runtime/device/device_driver.h"

namespace troupe {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(DeviceDriver::Handle));

class CudaDriver final : public DeviceDriver {
 public:
  CudaDriver(const CudaLibrary& library, int count) : cuda_(library), count_(count) {}

  const char* name() const override { return "cuda"; }
  int count() override { return count_; }

  Result<std::string> identity(int device) override {
    cudaDeviceProp properties;
    if (auto bad = cuda_.properties(&properties, device); bad != cudaSuccess)
      return error(bad, "cudaGetDeviceProperties", device);
    std::string text = "GPU-";
    constexpr const char* kDigits = "0123456789abcdef";
    for (char byte : properties.uuid.bytes) {
      text += kDigits[static_cast<unsigned char>(byte) >> 4];
      text += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
  }
  Result<Memory> memory(int device) override {
    On on(*this, device);
    if (on.bad != cudaSuccess) return error(on.bad, "cudaSetDevice", device);
    std::size_t free = 0, total = 0;
    if (auto bad = cuda_.memory_info(&free, &total); bad != cudaSuccess)
      return error(bad, "cudaMemGetInfo", device);
    return Memory{total, free};
  }

  Result<void*> allocate(int device, std::size_t bytes) override {
    void* memory = nullptr;
    return on_device<void*>(device, "cudaMalloc", memory, [&] { return cuda_.allocate(&memory, bytes); });
  }
  void release(int device, void* memory) override {
    On on(*this, device);
    cuda_.release(memory);
  }
  Result<void*> allocate_host(std::size_t bytes) override {
    void* memory = nullptr;
    if (auto bad = cuda_.allocate_host(&memory, bytes, cudaHostAllocPortable); bad != cudaSuccess) {
      Error failed = error(bad, "cudaHostAlloc", 0);
      if (bad == cudaErrorMemoryAllocation) failed.kind = ErrorKind::resource_exhausted;
      return failed;
    }
    return memory;
  }
  void release_host(void* memory) override { cuda_.release_host(memory); }

  Result<Stream> make_stream(int device) override {
    cudaStream_t stream = nullptr;
    return on_device<Stream>(device, "cudaStreamCreateWithFlags", stream,
                             [&] { return cuda_.stream_create(&stream, cudaStreamNonBlocking); });
  }
  void drop_stream(int, Stream stream) override { cuda_.stream_destroy(static_cast<cudaStream_t>(stream)); }
  Result<Event> make_event(int device) override {
    cudaEvent_t event = nullptr;
    return on_device<Event>(device, "cudaEventCreateWithFlags", event,
                            [&] { return cuda_.event_create(&event, cudaEventDisableTiming); });
  }
  void drop_event(int, Event event) override { cuda_.event_destroy(static_cast<cudaEvent_t>(event)); }
  Result<void> record(int device, Event event, Stream stream) override {
    return nothing(device, "cudaEventRecord", [&] {
      return cuda_.event_record(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
    });
  }
  Result<bool> done(int device, Event event) override {
    cudaError_t state = cuda_.event_query(static_cast<cudaEvent_t>(event));
    if (state == cudaSuccess) return true;
    if (state == cudaErrorNotReady) return false;
    return error(state, "cudaEventQuery", device);
  }
  Result<void> copy(int device, const Rows& rows, Stream on) override {
    auto stream = static_cast<cudaStream_t>(on);
    return nothing(device, "cudaMemcpyAsync", [&] {
      if (rows.rows == 1) return cuda_.copy(rows.to, rows.from, rows.width, cudaMemcpyDefault, stream);
      return cuda_.copy_2d(rows.to, rows.to_pitch, rows.from, rows.from_pitch, rows.width, rows.rows,
                           cudaMemcpyDefault, stream);
    });
  }

  Result<Exported> export_memory(int device, const void* pointer) override {
    CUdeviceptr begin = 0;
    Exported out;
    std::size_t size = 0;
    auto at = reinterpret_cast<CUdeviceptr>(pointer);
    if (auto bad = cuda_.address_range(&begin, &size, at); bad != CUDA_SUCCESS)
      return Error(ErrorKind::unavailable, "cuMemGetAddressRange on cuda:" + std::to_string(device) +
                                               ": error " + std::to_string(static_cast<int>(bad)));
    cudaIpcMemHandle_t handle;
    auto made = nothing(device, "cudaIpcGetMemHandle",
                        [&] { return cuda_.ipc_handle(&handle, reinterpret_cast<void*>(begin)); });
    if (!made) return made.error();
    std::memcpy(out.handle.data(), &handle, sizeof handle);
    out.offset = at - begin;
    out.size = size;
    return out;
  }
  Result<void*> open(int device, const Handle& from) override {
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, from.data(), sizeof handle);
    void* begin = nullptr;
    auto opened = on_device<void*>(device, "cudaIpcOpenMemHandle", begin, [&] {
      return cuda_.ipc_open(&begin, handle, cudaIpcMemLazyEnablePeerAccess);
    });
    // CUDA does not tell whether the exporter is gone; these are what it says then.
    if (!opened && opened.error().kind == ErrorKind::invalid_argument)
      opened.error().kind = ErrorKind::object_lost;
    return opened;
  }
  void close(int device, void* begin) override {
    On on(*this, device);
    cuda_.ipc_close(begin);
  }

 private:
  // The device, for the calls that use the current one.
  struct On {
    On(const CudaDriver& driver, int device) : cuda(driver.cuda_) {
      bad = cuda.get_device(&before);
      if (bad == cudaSuccess && before != device) bad = cuda.set_device(device);
      changed = bad == cudaSuccess && before != device;
    }
    ~On() {
      if (changed) cuda.set_device(before);
    }
    const CudaLibrary& cuda;
    int before = 0;
    bool changed = false;
    cudaError_t bad = cudaSuccess;
  };

  Error error(cudaError_t bad, const char* what, int device) const {
    cuda_.last_error();  // it would be found by somebody else's next call
    ErrorKind kind = ErrorKind::unavailable;
    if (bad == cudaErrorInvalidDevice || bad == cudaErrorNoDevice) kind = ErrorKind::wrong_device;
    if (bad == cudaErrorMemoryAllocation) kind = ErrorKind::device_memory_exceeded;
    if (bad == cudaErrorInvalidValue || bad == cudaErrorInvalidResourceHandle)
      kind = ErrorKind::invalid_argument;
    return Error(kind,
                 std::string(what) + " on cuda:" + std::to_string(device) + ": " + cuda_.error_text(bad));
  }
  template <class F>
  Result<void> nothing(int device, const char* what, F f) const {
    On on(*this, device);
    cudaError_t bad = on.bad == cudaSuccess ? f() : on.bad;
    if (bad == cudaSuccess) return {};
    return error(bad, what, device);
  }
  template <class T, class V, class F>
  Result<T> on_device(int device, const char* what, V& value, F f) const {
    if (auto done = nothing(device, what, f); !done) return done.error();
    return static_cast<T>(value);
  }

  const CudaLibrary& cuda_;
  const int count_;
};

}  // namespace

DeviceDriver* cuda_device_driver(std::string& why) {
  auto library = CudaLibrary::get();
  if (!library) {
    why = library.error().message;
    return nullptr;
  }
  int count = 0;
  cudaError_t bad = (*library)->device_count(&count);
  if (bad != cudaSuccess || count <= 0) {
    why = bad == cudaSuccess ? "CUDA sees no GPU" : (*library)->error_text(bad);
    return nullptr;
  }
  return new CudaDriver(**library, count);  // to the end of the process
}

}  // namespace troupe
