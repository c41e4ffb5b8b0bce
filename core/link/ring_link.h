// RingLink: two rings in shared memory (ring.h), a doorbell to wake the peer's lane, and a socket whose end
// tells of the peer's death. For processes of one machine and one job.
//
// A lane has one doorbell (an eventfd) of its own, in its epoll set, shared by all its links; the link holds
// only the peer's, to write to. Frames are copied out of the ring before they are handed on: what a frame's
// reader has checked cannot change afterwards, and the space is free at once. receive() may be called from
// within on_frame. Memory returned by begin_frame may be seen and scribbled over by the peer: fill it, never
// trust what is read back from it.
//
// Owner, thread: as in link.h. Lifetime: owns its descriptors and its mapping. The destructor closes the
// descriptors, so a forked child that drops its copy of a link disturbs nobody; close() ends the link for all
// copies.
#pragma once

#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/link/frame_buffer.h"
#include "core/link/link.h"
#include "core/link/out_queue.h"
#include "core/link/ring.h"
#include "core/link/ring_memory.h"
#include "core/os/fd.h"

namespace troupe {

enum class RingSide { creator, joiner };

struct RingParts {
  UniqueFd memory;  // made by create_ring_memory, perhaps in the other process
  RingSide side = RingSide::creator;
  UniqueFd liveness;       // connected Unix stream socket; neither side ever writes to it again
  UniqueFd peer_doorbell;  // the eventfd of the peer's lane
};

class RingLink final : public Link {
 public:
  // invalid_argument when the memory has the wrong size or lacks its seals, or a descriptor is missing.
  static Result<std::unique_ptr<RingLink>> open(RingParts parts, std::size_t backlog_limit = kDefaultBacklog);

  std::byte* begin_frame(std::size_t size) override;
  void end_frame() override;
  void flush() override;
  bool flush_is_cheap() const override { return true; }
  std::size_t receive(Sink& sink, std::size_t max_frames) override;
  bool prepare_sleep() override;
  void cancel_sleep() override;
  int descriptor() const override { return liveness_.get(); }
  void on_ready() override;
  bool closed() const override;
  std::string close_reason() const override { return reason_; }
  std::size_t backlog() const override { return queue_.bytes(); }
  void close(const std::string& reason) override;

 private:
  RingLink(RingMemory memory, int out, UniqueFd liveness, UniqueFd doorbell, std::size_t backlog_limit);
  void ring();
  void move_backlog();
  std::size_t next_piece() const;  // size of the backlog's next piece
  void deliver(Sink& sink);

  RingMemory memory_;
  std::size_t piece_;
  RingWriter writer_;
  RingReader reader_;
  UniqueFd liveness_;
  UniqueFd doorbell_;
  OutQueue queue_;
  std::size_t backlog_limit_;
  std::size_t front_left_ = 0;  // payload of the backlog's first frame not yet moved, when some of it was
  bool in_ring_ = false;        // the frame begun lies in the ring
  FrameBuffer assembly_;
  bool peer_died_ = false;
  bool closed_ = false;
  std::string reason_;
};

}  // namespace troupe
