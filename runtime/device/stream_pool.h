// Streams and events for copies: each copy has a stream of its own while it runs. A copy that passed its
// deadline may still be written to or read from, so its stream, its staging buffer and what keeps its memory
// are set aside until the device is through with them.
//
// Owner: Devices. Any thread. Bounded: kIdle streams a device are kept; those in use by the copies that run.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/device/device_driver.h"
#include "runtime/device/pinned_pool.h"

namespace troupe {

class StreamPool {
 public:
  static constexpr std::size_t kIdle = 8;
  struct Lane {
    int device = 0;
    DeviceDriver::Stream stream = nullptr;
    DeviceDriver::Event events[2] = {nullptr, nullptr};
  };

  explicit StreamPool(DeviceDriver& driver) : driver_(driver) {}
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;

  Result<Lane> take(int device);
  void give_back(Lane lane);  // nothing of it is under way
  void set_aside(Lane lane, PinnedPool::Buffer buffer, std::shared_ptr<const void> memory);
  std::size_t aside() const;  // copies that never ended, so far

 private:
  struct Aside {
    Lane lane;
    PinnedPool::Buffer buffer;
    std::shared_ptr<const void> memory;
    bool watched = false;  // its end can be seen
  };
  void collect();
  void drop(const Lane& lane);

  DeviceDriver& driver_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Lane> idle_;
  std::vector<Aside> aside_;
};

}  // namespace troupe
