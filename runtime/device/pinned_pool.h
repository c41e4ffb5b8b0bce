// Page-locked staging buffers for copies between host and device, in a few sizes, bounded in total. Buffers
// that were not used for a while are given back, all of them with the pool.
//
// Owner: Devices. Any thread. Who finds all in use waits, to its deadline; the others of the pool are not
// touched. Buffers may outlive the pool. Errors: deadline_exceeded (all in use), and what the driver says.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/device/device_driver.h"

namespace troupe {

class PinnedPool {
  struct State;

 public:
  static constexpr std::size_t kSizes[] = {64 << 10, 1 << 20, 8 << 20};
  static constexpr std::size_t kLargest = 8 << 20;
  struct Limits {
    std::size_t total = 64 << 20;
    std::chrono::milliseconds idle{5'000};
  };

  explicit PinnedPool(DeviceDriver& driver) : PinnedPool(driver, Limits()) {}
  PinnedPool(DeviceDriver& driver, Limits limits);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;

  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept
        : state_(std::move(other.state_)), bytes_(std::exchange(other.bytes_, nullptr)), size_(other.size_) {}
    Buffer& operator=(Buffer&& other) noexcept {
      std::swap(state_, other.state_);
      std::swap(bytes_, other.bytes_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~Buffer();
    std::byte* bytes() const { return bytes_; }
    std::size_t size() const { return size_; }

   private:
    friend class PinnedPool;
    std::shared_ptr<State> state_;
    std::byte* bytes_ = nullptr;
    std::size_t size_ = 0;
  };
  // Of the smallest size that holds `wanted` bytes, or of the largest.
  Result<Buffer> take(std::size_t wanted, std::int64_t deadline);
  struct Use {
    std::size_t in_use = 0, idle = 0;  // bytes
  };
  Use use() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace troupe
