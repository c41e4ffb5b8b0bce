// DeviceDriver: what this house needs of GPUs, so that everything above it is tested without one. The CUDA
// driver (cuda/) stands behind it where this machine has CUDA's libraries and a GPU; tests bring their own.
//
// Devices are numbered as this process sees them. Streams and events are opaque; copies and records on one
// stream are done in order. Nothing here waits for a device, but what a vendor's allocation and release may.
//
// Owner: the process, to its end. Any thread. Errors: wrong_device (no such device), device_memory_exceeded
// (the device has not that much), resource_exhausted (page-locked memory, streams), object_lost (the exporter
// of memory is gone), unavailable (the device reports a failure).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace troupe {

class DeviceDriver {
 public:
  using Stream = void*;
  using Event = void*;
  struct Memory {
    std::uint64_t total = 0, free = 0;
  };
  // Names an allocation to other processes of the machine.
  using Handle = std::array<std::byte, 64>;
  struct Exported {
    Handle handle{};
    std::uint64_t offset = 0, size = 0;  // of the pointer in the allocation; of the allocation
  };
  // `rows` pieces of `width` bytes, each a pitch after the one before. Device or page-locked memory.
  struct Rows {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t width = 0, rows = 1, to_pitch = 0, from_pitch = 0;  // pitches: at least width
  };

  virtual const char* name() const = 0;  // two processes that share memory have the same
  virtual int count() = 0;
  // The same in each process of the machine, and of no other device.
  virtual Result<std::string> identity(int device) = 0;
  virtual Result<Memory> memory(int device) = 0;

  virtual Result<void*> allocate(int device, std::size_t bytes) = 0;
  virtual void release(int device, void* memory) = 0;
  virtual Result<void*> allocate_host(std::size_t bytes) = 0;  // page-locked
  virtual void release_host(void* memory) = 0;

  virtual Result<Stream> make_stream(int device) = 0;
  virtual void drop_stream(int device, Stream stream) = 0;  // of which nothing is under way
  virtual Result<Event> make_event(int device) = 0;
  virtual void drop_event(int device, Event event) = 0;
  virtual Result<void> record(int device, Event event, Stream stream) = 0;
  virtual Result<bool> done(int device, Event event) = 0;  // what was recorded last
  virtual Result<void> copy(int device, const Rows& rows, Stream stream) = 0;

  virtual Result<Exported> export_memory(int device, const void* pointer) = 0;
  virtual Result<void*> open(int device, const Handle& handle) = 0;  // the allocation's begin
  virtual void close(int device, void* begin) = 0;

 protected:
  ~DeviceDriver() = default;
};

// The one of this process: what was installed, else CUDA's, which is loaded by the first call; null: none.
DeviceDriver* device_driver();
// Before the first use of a device; it lives for ever. For tests.
void install_device_driver(DeviceDriver* driver);

// Waits until the event is done; deadline_exceeded when steady_ns() has reached `deadline` before.
Result<void> wait_for_event(DeviceDriver& driver, int device, DeviceDriver::Event event,
                            std::int64_t deadline);

// CUDA's (cuda/cuda_driver.cpp), or null, with `why` set.
DeviceDriver* cuda_device_driver(std::string& why);

}  // namespace troupe
