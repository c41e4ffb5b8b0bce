#include "runtime/device/tensor_copies.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/clock.h"
#include "runtime/device/piece_walk.h"

namespace troupe {
namespace {

// One copy under way: its stream and, if it is staged, its buffer. Given back when all is finished, else set
// aside with what it needs.
class Copy {
 public:
  static Result<std::unique_ptr<Copy>> begin(Devices& devices, const Tensor& tensor, std::size_t staging,
                                             std::int64_t deadline) {
    if (auto good = devices.memory().check(tensor.device()); !good) return good.error();
    auto copy = std::unique_ptr<Copy>(new Copy(devices, tensor, deadline));
    if (staging > 0) {
      auto buffer = devices.pinned().take(staging, deadline);
      if (!buffer) return buffer.error();
      copy->buffer_ = std::move(*buffer);
    }
    auto lane = devices.streams().take(tensor.device().index);
    if (!lane) return lane.error();
    copy->lane_ = *lane;
    return copy;
  }
  ~Copy() {
    if (!lane_) return;
    if (under_way_)
      devices_.streams().set_aside(*lane_, std::move(buffer_), std::make_shared<const Tensor>(tensor_));
    else
      devices_.streams().give_back(*lane_);
  }

  std::size_t half() const { return buffer_.size() / 2; }
  std::byte* bytes(int side) const { return buffer_.bytes() + static_cast<std::size_t>(side) * half(); }

  Result<void> submit(const DeviceDriver::Rows& rows) {
    under_way_ = true;
    return driver().copy(lane_->device, rows, lane_->stream);
  }
  Result<void> record(int side) {
    recorded_[side] = true;
    return driver().record(lane_->device, lane_->events[side], lane_->stream);
  }
  // What was recorded on that side, if anything.
  Result<void> wait(int side) {
    if (!recorded_[side]) return {};
    auto done = wait_for_event(driver(), lane_->device, lane_->events[side], deadline_);
    if (!done) return done;
    recorded_[side] = false;
    if (!recorded_[1 - side]) under_way_ = false;
    return done;
  }

 private:
  Copy(Devices& devices, const Tensor& tensor, std::int64_t deadline)
      : devices_(devices), tensor_(tensor), deadline_(deadline) {}
  DeviceDriver& driver() { return devices_.driver(); }

  Devices& devices_;
  const Tensor tensor_;
  const std::int64_t deadline_;
  PinnedPool::Buffer buffer_;
  std::optional<StreamPool::Lane> lane_;
  bool under_way_ = false, recorded_[2] = {false, false};
};

std::size_t staging_for(std::size_t bytes) { return std::min(bytes, PinnedPool::kLargest / 2) * 2; }

}  // namespace

Result<void> copy_out(Devices& devices, const Tensor& from, std::byte* to, std::int64_t deadline) {
  std::size_t bytes = from.nbytes();
  if (bytes == 0) return devices.memory().check(from.device());
  auto begun = Copy::begin(devices, from, staging_for(bytes), deadline);
  if (!begun) return begun.error();
  Copy& copy = **begun;
  PieceWalk walk(from.shape(), from.strides(), size_of(from.dtype()));
  const auto* base = static_cast<const std::byte*>(from.data());
  std::size_t filled[2] = {0, 0};
  bool more = true;
  // One side is filled by the device while the other is emptied here.
  for (int side = 0; more || filled[side] > 0 || filled[1 - side] > 0; side = 1 - side) {
    if (filled[side] > 0) {
      if (auto done = copy.wait(side); !done) return done;
      std::memcpy(to, copy.bytes(side), filled[side]);
      to += std::exchange(filled[side], 0);
    }
    PieceWalk::Piece piece;
    while (more && copy.half() - filled[side] >= size_of(from.dtype())) {
      more = walk.next(copy.half() - filled[side], piece);
      if (!more) break;
      auto done = copy.submit({copy.bytes(side) + filled[side], base + piece.offset, piece.width, piece.rows,
                               piece.width, piece.pitch});
      if (!done) return done;
      filled[side] += piece.bytes();
    }
    if (filled[side] > 0) {
      if (auto done = copy.record(side); !done) return done;
    }
  }
  return {};
}

Result<void> copy_in(Devices& devices, const Tensor& to, const std::byte* from, std::int64_t deadline) {
  std::size_t bytes = to.nbytes();
  if (bytes == 0) return devices.memory().check(to.device());
  auto begun = Copy::begin(devices, to, staging_for(bytes), deadline);
  if (!begun) return begun.error();
  Copy& copy = **begun;
  auto* target = static_cast<std::byte*>(to.data());
  for (std::size_t at = 0, side = 0; at < bytes; side = 1 - side) {
    int half = static_cast<int>(side);
    std::size_t part = std::min(copy.half(), bytes - at);
    if (auto done = copy.wait(half); !done) return done;
    std::memcpy(copy.bytes(half), from + at, part);
    if (auto done = copy.submit({target + at, copy.bytes(half), part, 1, part, part}); !done) return done;
    if (auto done = copy.record(half); !done) return done;
    at += part;
  }
  for (int side : {0, 1}) {
    if (auto done = copy.wait(side); !done) return done;
  }
  return {};
}

Result<Tensor> copy_to_cpu(Devices& devices, const Tensor& tensor, std::int64_t deadline) {
  if (tensor.device().is_cpu()) return tensor;
  Tensor out = Tensor::empty(tensor.dtype(), tensor.shape());
  if (auto done = copy_out(devices, tensor, static_cast<std::byte*>(out.data()), deadline); !done)
    return done.error();
  return out;
}

Result<Tensor> copy_to_device(Devices& devices, const Tensor& tensor, Device device, std::int64_t deadline) {
  if (auto good = devices.memory().check(device); !good) return good.error();
  if (tensor.device() == device) return tensor;
  auto out = devices.memory().empty(device, tensor.dtype(), tensor.shape());
  if (!out) return out;
  if (tensor.device().is_cpu()) {
    Tensor packed = tensor.contiguous();
    auto done = copy_in(devices, *out, static_cast<const std::byte*>(packed.data()), deadline);
    if (!done) return done.error();
    return out;
  }
  if (tensor.nbytes() == 0) return out;
  // Between two devices: nothing is staged here. The source is kept beside the target while it is under way.
  if (auto good = devices.memory().check(tensor.device()); !good) return good.error();
  Tensor both = Tensor::over(out->data(), out->dtype(), out->shape(), out->strides(), device,
                             std::make_shared<const std::pair<Tensor, Tensor>>(*out, tensor));
  auto begun = Copy::begin(devices, both, 0, deadline);
  if (!begun) return begun.error();
  PieceWalk walk(tensor.shape(), tensor.strides(), size_of(tensor.dtype()));
  auto* to = static_cast<std::byte*>(out->data());
  for (PieceWalk::Piece piece; walk.next(tensor.nbytes(), piece); to += piece.bytes()) {
    const auto* from = static_cast<const std::byte*>(tensor.data()) + piece.offset;
    if (auto done = (*begun)->submit({to, from, piece.width, piece.rows, piece.width, piece.pitch}); !done)
      return done.error();
  }
  if (auto done = (*begun)->record(0); !done) return done.error();
  if (auto done = (*begun)->wait(0); !done) return done.error();
  return out;
}

}  // namespace troupe
