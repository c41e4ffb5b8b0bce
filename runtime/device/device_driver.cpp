#include "runtime/device/device_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace troupe {
namespace {

std::atomic<DeviceDriver*> installed{nullptr};

DeviceDriver* load_cuda() {
  std::string why;
  DeviceDriver* driver = cuda_device_driver(why);
  if (driver == nullptr) log(Level::debug, "no GPU is used here: " + why);
  return driver;
}

}  // namespace

DeviceDriver* device_driver() {
  if (auto* driver = installed.load(std::memory_order_acquire)) return driver;
  static DeviceDriver* const cuda = load_cuda();
  return cuda;
}

void install_device_driver(DeviceDriver* driver) { installed.store(driver, std::memory_order_release); }

Result<void> wait_for_event(DeviceDriver& driver, int device, DeviceDriver::Event event,
                            std::int64_t deadline) {
  constexpr auto kFirst = std::chrono::microseconds(2), kLongest = std::chrono::microseconds(500);
  for (auto pause = kFirst;; pause = std::min(pause * 2, kLongest)) {
    auto done = driver.done(device, event);
    if (!done) return done.error();
    if (*done) return {};
    if (steady_ns() >= deadline)
      return Error(ErrorKind::deadline_exceeded,
                   "cuda:" + std::to_string(device) + " did not finish a copy within its limit");
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace troupe
