// A ring of bytes in shared memory for one writer and one reader, which may be different processes.
//
// Frames are a header (frame_header.h) and a payload, both 8-aligned, never wrapped: a frame that does not
// fit before the end is preceded by a skip marker. Indices are 64-bit counts of bytes and only grow; `&
// (capacity - 1)` is the place. Both sides work on private indices and publish a batch with one store.
//
// Trust: the other side may write anything anywhere at any time. An index or header from shared memory is
// loaded once, checked, then used; what fails the check makes `broken()` say why, and nothing outside the
// ring is touched.
//
// Sleep and wake (modelled in tests/models/doorbell.pml): who publishes stores its index and then looks at
// the other side's flag; who goes to sleep stores its flag and then looks at the index again. All four are
// sequentially consistent, so at least one of the two sees the other. Fences would do as well, but thread
// sanitizer cannot see them.
//
// Owner and thread: each end belongs to one link, used by one thread at a time. The memory outlives both
// ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/link/frame_header.h"

namespace troupe {

// Lies in shared memory, zeroed at first. Two cache lines each, because processors fetch lines in pairs.
struct RingControl {
  alignas(128) std::atomic<std::uint64_t> head;           // written by the writer: end of what is published
  alignas(128) std::atomic<std::uint64_t> tail;           // written by the reader: end of what is free again
  alignas(128) std::atomic<std::uint32_t> reader_sleeps;  // set by the reader, taken back by who rings
  alignas(128) std::atomic<std::uint32_t> writer_waits;   // set by the writer: wants space
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The largest payload in one piece. Less than a quarter, so that a ring at most half full takes any piece
// even when the end of the ring must be skipped first: need < 2 * (capacity / 4).
constexpr std::size_t max_piece(std::size_t capacity) { return capacity / 4 - 64; }

class RingWriter {
 public:
  // `capacity` is a power of two; control and data start zeroed.
  RingWriter(RingControl* control, std::byte* data, std::size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  // Room for a payload of `size` <= max_piece bytes, not zeroed, or nullptr when the ring is full. commit()
  // ends it.
  std::byte* reserve(std::size_t size, std::uint32_t flags);
  void commit() { head_ += std::exchange(reserved_, 0); }

  // Shows the reader all that was committed. True when the reader sleeps: ring its doorbell.
  bool publish();

  // Asks the reader to ring once there is space. False when a piece of `size` fits already; then nothing is
  // asked.
  bool prepare_wait(std::size_t size);
  void cancel_wait() { control_->writer_waits.store(0, std::memory_order_relaxed); }

  const char* broken() const { return broken_; }

 private:
  bool fits(std::size_t bytes);
  std::size_t footprint(std::size_t size) const;  // header, payload, and the skipped end before them

  RingControl* control_;
  std::byte* data_;
  std::size_t capacity_;
  std::uint64_t head_ = 0;       // end of what is committed
  std::uint64_t published_ = 0;  // what the reader knows
  std::uint64_t tail_ = 0;       // the reader's index when last looked at
  std::size_t reserved_ = 0;
  const char* broken_ = nullptr;
};

class RingReader {
 public:
  struct Piece {
    std::span<const std::byte>
        bytes;          // in the ring, valid until release(); the writer's process may still scribble
    bool more = false;  // the next piece belongs to the same frame
  };

  RingReader(RingControl* control, const std::byte* data, std::size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  // False when the ring is empty, or broken.
  bool next(Piece& piece);
  std::size_t unreleased() const { return tail_ - released_; }
  // Gives the space of all pieces back. True when the writer waits for it: ring its doorbell.
  bool release();

  // Asks the writer to ring. False when something has arrived; then nothing is asked.
  bool prepare_sleep();
  void cancel_sleep() { control_->reader_sleeps.store(0, std::memory_order_relaxed); }

  bool empty() const { return control_->head.load(std::memory_order_acquire) == tail_; }
  const char* broken() const { return broken_; }

 private:
  bool look(std::memory_order order);

  RingControl* control_;
  const std::byte* data_;
  std::size_t capacity_;
  std::uint64_t tail_ = 0;      // end of what was read
  std::uint64_t released_ = 0;  // what the writer knows
  std::uint64_t head_ = 0;      // the writer's index when last looked at
  const char* broken_ = nullptr;
};

}  // namespace troupe
