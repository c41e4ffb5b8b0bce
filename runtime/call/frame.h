// Frames of the call plane: builds and parses wire::Frame messages (core/protocol/call.capnp) in place. A
// frame is one Cap'n Proto segment without the stream's segment table: the link knows its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "runtime/call/once_call.h"

namespace troupe {

// One caller that may be waiting: the actor and the call it made.
struct Hop {
  ActorId actor;
  std::uint64_t call = 0;
  bool operator==(const Hop&) const = default;
};

// The hops of a call, outermost first. Nearly all calls have none, one or two: those need no memory of their
// own.
class HopList {
 public:
  std::size_t size() const { return more_ ? more_->size() : size_; }
  bool empty() const { return size() == 0; }
  const Hop* begin() const { return more_ ? more_->data() : few_; }
  const Hop* end() const { return begin() + size(); }
  operator std::span<const Hop>() const { return {begin(), size()}; }
  void clear() {
    size_ = 0;
    more_.reset();
  }
  void push_back(const Hop& hop) {
    if (!more_ && size_ < kFew) {
      few_[size_++] = hop;
      return;
    }
    if (!more_) more_ = std::make_unique<std::vector<Hop>>(few_, few_ + size_);
    more_->push_back(hop);
  }
  HopList() = default;
  HopList(HopList&& other) noexcept = default;
  HopList& operator=(HopList&& other) noexcept = default;
  HopList(const HopList& other) { *this = other; }
  HopList& operator=(const HopList& other) {
    if (this == &other) return *this;
    size_ = other.size_;
    for (std::uint32_t i = 0; i < size_; ++i) few_[i] = other.few_[i];
    more_ = other.more_ ? std::make_unique<std::vector<Hop>>(*other.more_) : nullptr;
    return *this;
  }

 private:
  static constexpr std::uint32_t kFew = 2;
  Hop few_[kFew];
  std::uint32_t size_ = 0;
  std::unique_ptr<std::vector<Hop>> more_;
};

enum class FrameKind : std::uint8_t { call, value, failure, item, credit, cancel, gone, spent, unknown };

// Of args, value and item (runtime/objects/travel.h).
struct FrameExtras {
  bool refs = false;     // references follow the bytes
  bool outside = false;  // the bytes lie in the object of the first one
};

struct CallHeader {
  std::uint64_t id = 0;
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::uint16_t method = 0;
  bool one_way = false;
  std::uint32_t deadline_ms = 0;  // left, 0: none
  std::uint32_t credit = 0;
  std::uint64_t trace = 0;
  CallNumber number;    // to a durable actor
  bool shares = false;  // the caller reads the object store of the callee's node
  FrameExtras extras;
};

// Sizes are in bytes and exact; the write functions fill zeroed, 8-aligned memory of that size.
std::size_t call_size(std::size_t args, std::size_t chain, bool numbered = false);
void write_call(std::byte* to, std::size_t size, const CallHeader& header, std::span<const std::byte> args,
                std::span<const Hop> chain);

// Replies and stream items carry bytes.
std::size_t bytes_size(std::size_t bytes);
void write_bytes(std::byte* to, std::size_t size, FrameKind kind, std::uint64_t id,
                 std::span<const std::byte> bytes, FrameExtras extras = {});

std::size_t short_size();
void write_credit(std::byte* to, std::size_t size, std::uint64_t id, std::uint32_t credit);
void write_cancel(std::byte* to, std::size_t size, std::uint64_t id);
void write_spent(std::byte* to, std::size_t size, std::uint32_t slot);

// A failure message of its own (kind failure or gone), since its size is known only when it is built.
std::vector<std::uint64_t> failure_frame(FrameKind kind, std::uint64_t id, const Error& error);

// A parsed frame; spans point into the frame's memory.
struct FrameView {
  FrameKind kind = FrameKind::unknown;
  CallHeader call;  // `id` always, the rest for calls
  std::uint32_t credit = 0, slot = 0;
  std::span<const std::byte> bytes;  // args, value or item; with the references' block
  FrameExtras extras;
};

// Parses the frame; false when it is not a well-formed message. `chain` receives a call's chain and `error` a
// failure.
bool parse_frame(std::span<const std::byte> frame, FrameView& view, HopList& chain, Error& error);

}  // namespace troupe
