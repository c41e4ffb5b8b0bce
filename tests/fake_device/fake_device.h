// GPUs that are none, for tests: their memory lies in memfds, which other processes of the machine open by
// the exporter's /proc/…/fd, so that it goes with its last mapping, however a process ends. Streams are
// threads.
//
// Which devices there are is read from the environment at the first use, as CUDA does:
//   TROUPE_FAKE_DEVICES   identities, e.g. "FAKE-a,FAKE-b": what the machine has; unset: none
//   CUDA_VISIBLE_DEVICES  places in that list, or identities: what this process sees; unset: all
//   TROUPE_FAKE_MEMORY    bytes of each, default 1 GiB
//
// Never part of the product. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device/device_driver.h"

namespace troupe::test {

class FakeDevice final : public DeviceDriver {
 public:
  struct Options {
    std::vector<std::string> devices;
    std::uint64_t memory = std::uint64_t{1} << 30;
  };
  explicit FakeDevice(Options options) : options_(std::move(options)), read_(true) {}
  FakeDevice() = default;  // from the environment
  ~FakeDevice();

  const char* name() const override { return "fake"; }
  int count() override;
  Result<std::string> identity(int device) override;
  Result<Memory> memory(int device) override;
  Result<void*> allocate(int device, std::size_t bytes) override;
  void release(int device, void* memory) override;
  Result<void*> allocate_host(std::size_t bytes) override;
  void release_host(void* memory) override;
  Result<Stream> make_stream(int device) override;
  void drop_stream(int device, Stream stream) override;
  Result<Event> make_event(int device) override;
  void drop_event(int device, Event event) override;
  Result<void> record(int device, Event event, Stream stream) override;
  Result<bool> done(int device, Event event) override;
  Result<void> copy(int device, const Rows& rows, Stream stream) override;
  Result<Exported> export_memory(int device, const void* pointer) override;
  Result<void*> open(int device, const Handle& handle) override;
  void close(int device, void* begin) override;

  // ---- what is there ----
  struct Counts {
    int allocations = 0, host = 0, streams = 0, events = 0, mappings = 0;
    bool operator==(const Counts&) const = default;
  };
  Counts counts();
  std::atomic<int> opened{0};  // handles, ever
  std::atomic<int> copies{0};

  // ---- failures ----
  void hang(bool on) { hangs_ = on; }                              // streams do nothing meanwhile
  std::atomic<int> fail_copies{0}, fail_host{0}, fail_exports{0};  // so many of the next

 private:
  struct Memfd {
    int device = 0, fd = -1;
    std::size_t size = 0;
    bool imported = false;
  };
  struct FakeStream;
  struct FakeEvent;
  void read_environment();
  Result<void> check(int device);

  std::atomic<bool> hangs_{false};
  std::mutex mutex_;  // guards what follows
  Options options_;
  bool read_ = false;
  std::map<std::byte*, Memfd> memory_;
  int host_ = 0, streams_ = 0, events_ = 0;
};

}  // namespace troupe::test
