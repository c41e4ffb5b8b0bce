#include "core/link/ring_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {

namespace {

constexpr std::size_t kKeepAssembly = 1u << 20;  // a larger buffer is not kept from frame to frame

}  // namespace

RingLink::RingLink(RingMemory memory, int out, UniqueFd liveness, UniqueFd doorbell,
                   std::size_t backlog_limit)
    : memory_(std::move(memory)),
      piece_(max_piece(memory_.capacity)),
      writer_(memory_.control(out), memory_.data(out), memory_.capacity),
      reader_(memory_.control(1 - out), memory_.data(1 - out), memory_.capacity),
      liveness_(std::move(liveness)),
      doorbell_(std::move(doorbell)),
      backlog_limit_(backlog_limit) {}

Result<std::unique_ptr<RingLink>> RingLink::open(RingParts parts, std::size_t backlog_limit) {
  if (!parts.memory || !parts.liveness || !parts.peer_doorbell) {
    return Error(ErrorKind::invalid_argument, "a ring link lacks its memory, liveness socket or doorbell");
  }
  Result<RingMemory> memory = RingMemory::map(parts.memory);
  if (!memory) return memory.error();
  int out = parts.side == RingSide::creator ? 0 : 1;
  return std::unique_ptr<RingLink>(new RingLink(*std::move(memory), out, std::move(parts.liveness),
                                                std::move(parts.peer_doorbell), backlog_limit));
}

void RingLink::ring() {
  std::uint64_t one = 1;
  while (::write(doorbell_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

std::byte* RingLink::begin_frame(std::size_t size) {
  if (closed_ || peer_died_ || size > kMaxFrame || size % 8 != 0) return nullptr;
  if (queue_.empty() && size <= piece_) {
    if (std::byte* at = writer_.reserve(size, kWhole)) {
      in_ring_ = true;
      std::memset(at, 0, size);
      return at;
    }
  }
  if (!queue_.empty() && queue_.bytes() + kFrameHeader + size > backlog_limit_) {
    flush();
    if (closed_ || (!queue_.empty() && queue_.bytes() + kFrameHeader + size > backlog_limit_)) return nullptr;
  }
  return queue_.push(size);
}

void RingLink::end_frame() {
  if (in_ring_) writer_.commit();
  in_ring_ = false;
}

std::size_t RingLink::next_piece() const {
  std::size_t left = front_left_ ? front_left_ : load_header(queue_.front().data()).length;
  return std::min(left, piece_);
}

void RingLink::move_backlog() {
  while (!queue_.empty()) {
    if (front_left_ == 0) {
      std::size_t length = load_header(queue_.front().data()).length;
      if (length <= piece_) {
        std::byte* at = writer_.reserve(length, kWhole);
        if (!at) return;
        std::memcpy(at, queue_.front().data() + kFrameHeader, length);
        writer_.commit();
        queue_.pop(kFrameHeader + length);
        continue;
      }
      front_left_ = length;
      queue_.pop(kFrameHeader);
    }
    std::size_t size = std::min(front_left_, piece_);
    std::byte* at = writer_.reserve(size, size < front_left_ ? kMore : kWhole);
    if (!at) return;
    std::memcpy(at, queue_.front().data(), size);
    writer_.commit();
    front_left_ -= size;
    queue_.pop(size);
  }
}

void RingLink::flush() {
  if (closed_ || peer_died_) return;
  if (!queue_.empty()) move_backlog();
  if (writer_.publish()) ring();
  if (writer_.broken()) blame(writer_.broken());
}

void RingLink::deliver(Sink& sink) {
  // Taken out, so that a receive() inside on_frame finds a buffer of its own.
  FrameBuffer frame = std::move(assembly_);
  sink.on_frame({frame.begin(), frame.size()});
  if (frame.capacity() > kKeepAssembly || assembly_.capacity() != 0) return;
  frame.clear();
  assembly_ = std::move(frame);
}

std::size_t RingLink::receive(Sink& sink, std::size_t max_frames) {
  if (!queue_.empty()) flush();
  std::size_t frames = 0;
  RingReader::Piece piece;
  while (frames < max_frames && !closed_ && reader_.next(piece)) {
    if (assembly_.size() + piece.bytes.size() > kMaxFrame) {
      blame("the peer sent a frame longer than " + std::to_string(kMaxFrame) + " bytes");
      break;
    }
    assembly_.append(piece.bytes);
    // The writer goes on while the rest of a long batch is read; and nobody reads in the ring during
    // on_frame.
    if (reader_.unreleased() >= piece_ && reader_.release()) ring();
    if (piece.more) continue;
    ++frames;
    deliver(sink);
  }
  if (closed_) return frames;
  if (reader_.broken()) {
    blame(reader_.broken());
  } else if (reader_.release()) {
    ring();
  }
  return frames;
}

bool RingLink::prepare_sleep() {
  if (closed_) return true;
  bool waited = !queue_.empty();
  flush();
  if (waited && queue_.empty() && !closed_ && !peer_died_) return false;
  if (!queue_.empty() && !peer_died_ && !closed_ && !writer_.prepare_wait(next_piece())) return false;
  if (reader_.prepare_sleep()) return true;
  writer_.cancel_wait();
  return false;
}

void RingLink::cancel_sleep() {
  reader_.cancel_sleep();
  writer_.cancel_wait();
}

void RingLink::on_ready() {
  if (closed_ || peer_died_) return;
  std::byte stray[8];
  ssize_t n;
  do n = ::recv(liveness_.get(), stray, sizeof stray, MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  if (n > 0) return blame("the peer wrote to the liveness socket");
  // What it published before it died can still be read; what waits for it here cannot arrive any more.
  peer_died_ = true;
  reason_ = "the peer closed the link or died";
  queue_.clear();
  front_left_ = 0;
}

bool RingLink::closed() const { return closed_ || (peer_died_ && reader_.empty()); }

void RingLink::close(const std::string& reason) {
  if (closed_) return;
  if (!peer_died_ && !writer_.broken() && !reader_.broken()) {
    move_backlog();
    if (writer_.publish()) ring();
  }
  closed_ = true;
  if (!peer_died_) reason_ = reason;
  ::shutdown(liveness_.get(), SHUT_RDWR);
  queue_.clear();
  front_left_ = 0;
}

}  // namespace troupe
