#include "runtime/device/device_memory.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace troupe {

struct DeviceMemory::State {
  struct Card {
    std::uint64_t limit = 0, in_use = 0;
    bool known = false;
  };
  State(DeviceDriver& d, double s)
      : driver(d), share(s), cards(static_cast<std::size_t>(std::max(d.count(), 0))) {}
  Card& of(int device) { return cards[static_cast<std::size_t>(device)]; }

  DeviceDriver& driver;
  const double share;
  std::mutex mutex;  // guards what follows
  std::vector<Card> cards;
};

DeviceMemory::DeviceMemory(DeviceDriver& driver, double share)
    : state_(std::make_shared<State>(driver, std::clamp(share, 0.0, 1.0))) {}

Result<void> DeviceMemory::check(Device device) const {
  std::size_t count = state_->cards.size();
  if (device.kind == Device::Kind::cuda && device.index >= 0 &&
      static_cast<std::size_t>(device.index) < count)
    return {};
  return Error(ErrorKind::wrong_device,
               to_string(device) + " is no GPU of this process, which sees " + std::to_string(count) +
                   (count == 0 ? ": ask for one with ActorOptions().gpus(1)" : ", from cuda:0 on"));
}

// The card is asked once: its size does not change.
Result<std::uint64_t> DeviceMemory::limit(int device) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->of(device).known) return state_->of(device).limit;
  }
  auto memory = state_->driver.memory(device);
  if (!memory) return memory.error();
  std::lock_guard lock(state_->mutex);
  auto& card = state_->of(device);
  card.limit = static_cast<std::uint64_t>(static_cast<double>(memory->total) * state_->share);
  card.known = true;
  return card.limit;
}

Result<Tensor> DeviceMemory::empty(Device device, DType dtype, const Dims& shape) {
  auto bytes = static_cast<std::uint64_t>(elements(shape, size_of(dtype))) * size_of(dtype);
  if (auto good = check(device); !good) return good.error();
  auto limit = this->limit(device.index);
  if (!limit) return limit.error();
  std::uint64_t asked = std::max<std::uint64_t>(bytes, 1), in_use = 0;
  {
    std::lock_guard lock(state_->mutex);
    auto& card = state_->of(device.index);
    in_use = card.in_use;
    if (asked <= *limit && in_use <= *limit - asked) card.in_use += asked;
  }
  auto text = [&] {
    return to_string(device) + ": " + std::to_string(bytes) + " bytes were asked for, " +
           std::to_string(in_use) + " are in use by this process, its share is " + std::to_string(*limit);
  };
  if (asked > *limit || in_use > *limit - asked)
    return Error(ErrorKind::device_memory_exceeded,
                 text() + " bytes; free tensors, or ask for more with ActorOptions().gpus()");
  auto uncount = [state = state_, index = device.index, asked] {
    std::lock_guard lock(state->mutex);
    state->of(index).in_use -= asked;
  };
  auto memory = state_->driver.allocate(device.index, asked);
  if (!memory) {
    uncount();
    Error error = memory.error();
    if (error.kind == ErrorKind::device_memory_exceeded)
      error.message = text() + " bytes, but the card has not so much left: " + error.message;
    return error;
  }
  std::shared_ptr<void> owner(*memory, [state = state_, index = device.index, uncount](void* pointer) {
    state->driver.release(index, pointer);
    uncount();
  });
  return Tensor::over(*memory, dtype, shape, row_major(shape), device, std::move(owner));
}

Result<DeviceMemory::Use> DeviceMemory::use(Device device) {
  if (auto good = check(device); !good) return good.error();
  auto limit = this->limit(device.index);
  if (!limit) return limit.error();
  auto memory = state_->driver.memory(device.index);
  if (!memory) return memory.error();
  std::lock_guard lock(state_->mutex);
  return Use{memory->total, memory->free, *limit, state_->of(device.index).in_use};
}

}  // namespace troupe
