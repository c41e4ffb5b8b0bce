// TcpLink: frames over a connected stream socket, in both directions. For processes of different machines.
//
// Reads ahead into one buffer and hands frames out of it without copying; gathers what is written and sends
// it with one call per flush. receive() may be called from within on_frame.
//
// Owner, thread: as in link.h. Lifetime: owns the socket; the destructor closes it. After close() what was
// flushed still reaches the peer, unless the peer goes on sending to a link that has been destroyed (TCP then
// resets).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/link/frame_buffer.h"
#include "core/link/link.h"
#include "core/link/out_queue.h"
#include "core/os/fd.h"

namespace troupe {

class TcpLink final : public Link {
 public:
  // Takes a connected stream socket over and makes it non-blocking, without delay. `already_read`: what the
  // handshake has read beyond its own end.
  static Result<std::unique_ptr<TcpLink>> open(UniqueFd socket, std::size_t backlog_limit = kDefaultBacklog,
                                               std::span<const std::byte> already_read = {});

  std::byte* begin_frame(std::size_t size) override;
  void end_frame() override {}
  void flush() override;
  std::size_t receive(Sink& sink, std::size_t max_frames) override;
  bool prepare_sleep() override;
  void cancel_sleep() override {}
  int descriptor() const override { return socket_.get(); }
  void on_ready() override;
  bool closed() const override { return closed_; }
  std::string close_reason() const override { return reason_; }
  std::size_t backlog() const override { return queue_.bytes(); }
  void close(const std::string& reason) override;

 private:
  TcpLink(UniqueFd socket, std::size_t backlog_limit);
  bool whole_frame();  // one lies in the buffer; checks its header
  void fill();         // one read
  void send();         // as much as the socket takes
  void write_failed(int error);
  void shut(std::string reason);

  UniqueFd socket_;
  OutQueue queue_;
  std::size_t backlog_limit_;
  bool blocked_ = false;  // the socket took no more; it will tell when it does
  FrameBuffer input_;
  std::vector<FrameBuffer> retired_;  // hold frames that an outer receive() is still handing out
  int depth_ = 0;                     // of receive() inside on_frame
  bool drained_ = false;              // the last read found nothing
  bool write_failed_ = false;
  bool input_ended_ = false;
  bool closed_ = false;
  std::string reason_;
};

}  // namespace troupe
