// A link: an ordered, bounded, two-way stream of frames between two processes. Two implementations: rings in
// shared memory (ring_link.h) and TCP (tcp_link.h); both pass one suite of tests (tests/unit/core/link).
//
// Owner and thread: a lane owns its links and uses them under its baton, so no member is called concurrently.
// Lifetime: frames that the peer published before it died are still delivered, then `closed()` turns true.
// Limits: one frame at most kMaxFrame bytes; what does not fit the ring or socket waits in a backlog of at
// most `backlog_limit` bytes, beyond which begin_frame refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe {

inline constexpr std::size_t kMaxFrame = 64u << 20;
inline constexpr std::size_t kDefaultBacklog = 256u << 20;

class Link {
 public:
  // Receives frames inside Link::receive. The bytes are 8-aligned and valid during the call only.
  class Sink {
   public:
    virtual void on_frame(std::span<const std::byte> frame) = 0;

   protected:
    ~Sink() = default;
  };

  virtual ~Link() = default;

  // Starts a frame of exactly `size` bytes (a multiple of 8, at most kMaxFrame). Returns zeroed, 8-aligned
  // memory to fill, or nullptr when the backlog is full or the link is closed. Each begin is followed by
  // end_frame, with nothing in between.
  virtual std::byte* begin_frame(std::size_t size) = 0;
  virtual void end_frame() = 0;

  // Makes all ended frames visible to the peer: one store (and a doorbell if the peer sleeps), or one write.
  virtual void flush() = 0;
  // Whether a flush costs no system call while the peer is awake, so that batching gains nothing.
  virtual bool flush_is_cheap() const { return false; }

  // Hands up to `max_frames` frames to `sink` and returns how many. Never blocks. Moves backlog on as well.
  virtual std::size_t receive(Sink& sink, std::size_t max_frames) = 0;

  // Before its lane sleeps: flushes, and asks the peer to ring. False when frames have arrived meanwhile, or
  // when the backlog found space, so that who was refused may try again: do not sleep, nothing stays asked.
  virtual bool prepare_sleep() = 0;
  // After its lane woke, before the next receive.
  virtual void cancel_sleep() = 0;

  // The descriptor the lane adds to its epoll set (edge-triggered, EPOLLIN | EPOLLOUT | EPOLLRDHUP): the data
  // socket of a TCP link, the liveness socket of a ring link. After an event on it the lane calls on_ready.
  virtual int descriptor() const = 0;
  virtual void on_ready() = 0;

  virtual bool closed() const = 0;  // and nothing is left to receive
  virtual std::string close_reason() const = 0;
  virtual std::size_t backlog() const = 0;            // bytes that wait to be taken by ring or socket
  virtual void close(const std::string& reason) = 0;  // this side; the peer sees it as a death

  // Whether this side ended it because the peer broke the protocol: a false index, header or message.
  bool peer_at_fault() const { return peer_at_fault_; }
  // Closes it because of what the peer sent.
  void blame(const std::string& reason) {
    if (closed()) return;
    peer_at_fault_ = true;
    close(reason);
  }

 private:
  bool peer_at_fault_ = false;
};

}  // namespace troupe
