#include "tests/sim/sim_link.h"

#include <cstring>

namespace troupe::sim {
namespace {

constexpr std::size_t kHeader = 8;  // a frame's length

}  // namespace

SimLink::SimLink(std::unique_ptr<Network::Wire> wire, bool shared, int descriptor,
                 std::function<void(bool)> woken)
    : wire_(std::move(wire)), shared_(shared), descriptor_(descriptor), woken_(std::move(woken)) {
  wire_->on_event([this] { arrived(); });
}

SimLink::~SimLink() = default;

void SimLink::arrived() {
  if (closed_) return;
  if (!shared_ || wire_->over()) return woken_(true);
  if (asked_) {
    asked_ = false;
    woken_(false);
  }
}

std::byte* SimLink::begin_frame(std::size_t size) {
  if (closed_ || peer_gone_ || size > kMaxFrame || size % 8 != 0) return nullptr;
  std::uint64_t length = size;
  const auto* header = reinterpret_cast<const std::byte*>(&length);
  out_.insert(out_.end(), header, header + kHeader);
  out_.resize(out_.size() + size);
  return out_.data() + out_.size() - size;
}

void SimLink::end_frame() {}

void SimLink::flush() {
  if (closed_ || out_.empty()) return;
  wire_->write(out_);
  out_.clear();
}

void SimLink::take() {
  if (read_ == in_.size()) {
    in_.clear();
    read_ = 0;
  }
  wire_->take(in_);
}

std::size_t SimLink::receive(Sink& sink, std::size_t max_frames) {
  if (closed_) return 0;
  take();
  if (!shared_ && wire_->over() && !peer_gone_) {
    peer_gone_ = true;
    reason_ = "the peer closed the connection";
  }
  std::size_t frames = 0;
  while (frames < max_frames && !closed_ && in_.size() - read_ >= kHeader) {
    std::uint64_t length = 0;
    std::memcpy(&length, in_.data() + read_, kHeader);
    if (in_.size() - read_ - kHeader < length) break;
    // A copy: receive() may be called from within on_frame.
    std::vector<std::uint64_t> frame(length / 8);
    if (length > 0) std::memcpy(frame.data(), in_.data() + read_ + kHeader, length);
    read_ += kHeader + length;
    ++frames;
    sink.on_frame(std::as_bytes(std::span(frame)));
  }
  return frames;
}

bool SimLink::prepare_sleep() {
  if (closed_) return true;
  flush();
  take();
  if (in_.size() > read_) return false;
  asked_ = true;
  return true;
}

void SimLink::on_ready() {
  if (closed_ || peer_gone_ || !wire_->over()) return;
  peer_gone_ = true;
  reason_ = "the peer closed the link or died";
  out_.clear();
}

bool SimLink::closed() const { return closed_ || (peer_gone_ && in_.size() == read_ && !wire_->has_bytes()); }

void SimLink::close(const std::string& reason) {
  if (closed_) return;
  if (shared_) flush();
  closed_ = true;
  if (!peer_gone_) reason_ = reason;
  out_.clear();
  wire_->close();
}

}  // namespace troupe::sim
