#include "runtime/group/agreement.h"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

constexpr std::size_t kMostText = 512;  // of a fault

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Agreement::Agreement(Mesh& mesh, int rank, int size)
    : mesh_(mesh),
      rank_(rank),
      size_(size),
      small_(std::min(kMostBytes, kMostBytesOfAll / static_cast<std::size_t>(size))),
      block_(sizeof(CheckHeader) + padded(std::max({small_, static_cast<std::size_t>(size) * 8, kMostText}))),
      memory_(
          std::make_unique_for_overwrite<std::byte[]>(block_ * static_cast<std::size_t>(std::max(size, 2)))),
      buffer_(size > 1 ? mesh.buffer(memory_.get(), block_ * static_cast<std::size_t>(size)) : nullptr) {}

std::size_t Agreement::write(std::size_t at, const CheckHeader& header, std::span<const std::byte> payload) {
  std::size_t bytes = std::min(payload.size(), block_ - sizeof header);
  CheckHeader copy = header;
  copy.payload = static_cast<std::uint32_t>(bytes);
  std::memcpy(memory_.get() + at, &copy, sizeof copy);
  if (bytes != 0) std::memcpy(memory_.get() + at + sizeof copy, payload.data(), bytes);
  return sizeof copy + padded(bytes);
}

bool Agreement::read(std::size_t& at, std::size_t end, std::uint64_t sequence, Contribution& out) {
  CheckHeader& h = out.header;
  if (end - at < sizeof h) return false;
  std::memcpy(&h, memory_.get() + at, sizeof h);
  std::size_t bytes = sizeof h + padded(h.payload);
  if (h.sequence != sequence || static_cast<int>(h.kind) >= kOpKinds ||
      !is_dtype(static_cast<std::uint8_t>(h.dtype)) || static_cast<int>(h.op) >= kReduceOps ||
      h.payload > block_ - sizeof h || bytes > end - at ||
      ((h.flags & CheckHeader::kCounts) != 0 && h.payload < static_cast<std::size_t>(size_) * 8))
    return false;
  out.payload = {memory_.get() + at + sizeof h, h.payload};
  at += bytes;
  return true;
}

bool Agreement::broken(int peer) {
  mesh_.abort(Error(ErrorKind::internal, "rank " + std::to_string(rank_) + " got a message from rank " +
                                             std::to_string(peer) + " that is none of the group's"));
  return false;
}

// After each round this rank holds the messages of itself and of the ranks behind it, in that order and
// without gaps; it passes them on and receives as many from the ranks that follow.
bool Agreement::exchange(const CheckHeader& header, std::span<const std::byte> payload,
                         std::vector<Contribution>& all) {
  all.resize(static_cast<std::size_t>(size_));
  std::size_t end = write(0, header, payload), parsed = 0;
  int held = 1;
  auto keep = [&](int i, std::size_t limit) {
    return read(parsed, limit, header.sequence, all[static_cast<std::size_t>((rank_ + i) % size_)]);
  };
  keep(0, end);
  std::uint64_t tag = header.sequence << 2;
  while (held < size_) {
    int more = std::min(held, size_ - held);
    int to = (rank_ - held + size_) % size_, from = (rank_ + held) % size_;
    std::size_t bytes = 0;  // of the first `more` messages held
    for (int i = 0; i < more; ++i)
      bytes += sizeof header + padded(all[static_cast<std::size_t>((rank_ + i) % size_)].header.payload);
    std::size_t room = static_cast<std::size_t>(more) * block_;
    buffer_->recv(from, tag, end, room);
    buffer_->send(to, tag, 0, bytes);
    if (!buffer_->wait_recv() || !buffer_->wait_send()) return false;
    for (int i = 0; i < more; ++i)
      if (!keep(held + i, end + room)) return broken(from);
    end = parsed;
    held += more;
  }
  return true;
}

bool Agreement::exchange(std::uint64_t order, int from, int to, const CheckHeader& header,
                         std::span<const std::byte> payload, Contribution& theirs) {
  int peer = rank_ == from ? to : from;
  std::size_t bytes = write(0, header, payload), at = block_;
  std::uint64_t tag = 1ull << 63 | order << 2;
  buffer_->recv(peer, tag | (rank_ == from ? 1 : 0), block_, block_);
  buffer_->send(peer, tag | (rank_ == from ? 0 : 1), 0, bytes);
  if (!buffer_->wait_recv() || !buffer_->wait_send()) return false;
  return read(at, 2 * block_, order, theirs) || broken(peer);
}

}  // namespace troupe
