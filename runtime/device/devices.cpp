#include "runtime/device/devices.h"

#include <atomic>
#include <mutex>

namespace troupe {
namespace {

std::atomic<double> the_share{1};
std::atomic<bool> is_wanted{false};
std::atomic<Devices*> the_devices{nullptr};

}  // namespace

void Devices::set_share(double share) {
  the_share = share;
  if (share > 0) is_wanted = true;
}

bool Devices::wanted() { return is_wanted.load(std::memory_order_relaxed); }

Result<Devices*> Devices::get() {
  if (auto* made = the_devices.load(std::memory_order_acquire)) return made;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (auto* made = the_devices.load(std::memory_order_acquire)) return made;
  DeviceDriver* driver = device_driver();
  if (driver == nullptr || driver->count() <= 0)
    return Error(ErrorKind::wrong_device,
                 "this process sees no GPU: give the actor one with ActorOptions().gpus(1), or pass "
                 "to_cpu(tensor)");
  auto* made = new Devices(*driver, the_share);  // tensors and copies may outlive everything else
  the_devices.store(made, std::memory_order_release);
  is_wanted = true;
  return made;
}

}  // namespace troupe
