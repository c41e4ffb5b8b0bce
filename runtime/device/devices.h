// The GPUs of this process: driver, accounted memory, staging buffers, streams.
//
// get() is the process's, made by the first call, to its end. Any thread.
#pragma once

#include <cstdint>

#include "runtime/device/device_driver.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/pinned_pool.h"
#include "runtime/device/stream_pool.h"

namespace troupe {

class Devices {
 public:
  // How long copies that messages make for themselves may take.
  static constexpr std::int64_t kPatienceNs = 30'000'000'000;

  explicit Devices(DeviceDriver& driver, double share = 1)
      : driver_(driver), memory_(driver, share), pinned_(driver), streams_(driver) {}

  // wrong_device when this process sees no GPU.
  static Result<Devices*> get();
  // This process's share of each card it sees, at most 1; before the first get(). Programs that are no actor
  // have all.
  static void set_share(double share);
  // Whether this process has to do with GPUs: it was given some, or has used one.
  static bool wanted();

  DeviceDriver& driver() { return driver_; }
  DeviceMemory& memory() { return memory_; }
  PinnedPool& pinned() { return pinned_; }
  StreamPool& streams() { return streams_; }

 private:
  DeviceDriver& driver_;
  DeviceMemory memory_;
  PinnedPool pinned_;
  StreamPool streams_;
};

}  // namespace troupe
