#include "core/link/tcp_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/link/frame_header.h"

namespace troupe {

namespace {
constexpr std::size_t kReadAhead = 64u << 10;
constexpr std::size_t kKeepInput = 1u << 20;     // a larger buffer is given back when it is empty
constexpr std::size_t kBytesPerTurn = 4u << 20;  // so that one busy link does not starve its lane
constexpr std::size_t kVectors = 64;
}  // namespace

TcpLink::TcpLink(UniqueFd socket, std::size_t backlog_limit)
    : socket_(std::move(socket)), backlog_limit_(backlog_limit) {}

Result<std::unique_ptr<TcpLink>> TcpLink::open(UniqueFd socket, std::size_t backlog_limit,
                                               std::span<const std::byte> already_read) {
  int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_error(errno, "making a link's socket non-blocking");
  }
  int on = 1;
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 && errno != EOPNOTSUPP) {
    return system_error(errno, "TCP_NODELAY on a link's socket");
  }
  std::unique_ptr<TcpLink> link(new TcpLink(std::move(socket), backlog_limit));
  link->input_.append(already_read);
  return link;
}

std::byte* TcpLink::begin_frame(std::size_t size) {
  if (closed_ || write_failed_ || input_ended_ || size > kMaxFrame || size % 8 != 0) return nullptr;
  auto full = [&] { return !queue_.empty() && queue_.bytes() + kFrameHeader + size > backlog_limit_; };
  if (full()) {
    send();
    if (closed_ || write_failed_ || full()) return nullptr;
  }
  return queue_.push(size);
}

void TcpLink::flush() {
  if (!blocked_) send();
}

void TcpLink::send() {
  while (!queue_.empty() && !closed_ && !write_failed_) {
    iovec parts[kVectors];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = queue_.gather(parts, kVectors);
    ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      queue_.pop(static_cast<std::size_t>(n));
      blocked_ = false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      blocked_ = true;
      return;
    } else if (errno != EINTR) {
      return write_failed(errno);
    }
  }
}

void TcpLink::write_failed(int error) {
  // What the peer sent before is still to be read; the read side then ends by itself.
  write_failed_ = true;
  reason_ = system_error(error, "writing to the peer").message;
  queue_.clear();
}

bool TcpLink::whole_frame() {
  if (input_.size() < kFrameHeader) return false;
  FrameHeader header = load_header(input_.begin());
  if (header.flags != kWhole || header.length % 8 != 0 || header.length > kMaxFrame) {
    blame("the peer sent a false frame header");
    return false;
  }
  return input_.size() >= kFrameHeader + header.length;
}

void TcpLink::fill() {
  if (input_.size() == 0 && depth_ == 0) {
    input_.clear();
    if (input_.capacity() > kKeepInput) input_ = FrameBuffer();
  }
  // Grows by what has arrived, not by what a header promises.
  if (input_.room() < kReadAhead / 4) {
    FrameBuffer old;
    input_.make_room(std::max(kReadAhead, input_.size()), depth_ == 0, old);
    if (depth_ != 0 && old.capacity() != 0) retired_.push_back(std::move(old));
  }
  ssize_t n;
  do n = ::recv(socket_.get(), input_.end(), input_.room(), MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    input_.grow(static_cast<std::size_t>(n));
    drained_ = false;
    return;
  }
  drained_ = true;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    if (write_failed_) shut(reason_);
    return;
  }
  input_ended_ = true;
  if (n < 0) {
    shut(system_error(errno, "reading from the peer").message);
  } else if (input_.size() != 0) {
    shut("the peer closed the link or died in the middle of a frame");
  } else {
    shut("the peer closed the link or died");
  }
}

std::size_t TcpLink::receive(Sink& sink, std::size_t max_frames) {
  if (!queue_.empty()) send();
  std::size_t frames = 0;
  std::size_t bytes = 0;
  while (!closed_ && frames < max_frames) {
    if (!whole_frame()) {
      if (closed_ || bytes >= kBytesPerTurn) break;
      std::size_t before = input_.size();
      fill();
      if (drained_) break;
      bytes += input_.size() - before;
      continue;
    }
    std::size_t length = load_header(input_.begin()).length;
    std::byte* payload = input_.begin() + kFrameHeader;
    input_.drop(kFrameHeader + length);
    ++frames;
    ++depth_;
    sink.on_frame({payload, length});
    if (--depth_ == 0) retired_.clear();
  }
  return frames;
}

bool TcpLink::prepare_sleep() {
  if (closed_) return true;
  bool waited = blocked_;
  send();
  if (waited && !blocked_ && !write_failed_) return false;
  if (whole_frame()) return false;
  if (!closed_ && !drained_) fill();
  return closed_ || drained_;
}

void TcpLink::on_ready() {
  blocked_ = false;
  drained_ = false;
  send();
}

void TcpLink::shut(std::string reason) {
  if (closed_) return;
  closed_ = true;
  reason_ = std::move(reason);
  queue_.clear();
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void TcpLink::close(const std::string& reason) {
  if (closed_) return;
  send();
  closed_ = true;
  reason_ = reason;
  queue_.clear();
  ::shutdown(socket_.get(), SHUT_WR);  // not RD: bytes that arrive later would reset what is on its way
}

}  // namespace troupe
