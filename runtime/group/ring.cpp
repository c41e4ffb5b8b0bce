#include "runtime/group/ring.h"

#include <algorithm>
#include <memory>

namespace troupe {
namespace {

// Large enough that a message's cost does not count, small enough to stay in the cache while it is combined.
constexpr std::size_t kPiece = 256 << 10;

// The pieces of the steps of a ring, in the order in which they pass.
struct Pieces {
  const Ring& ring;
  std::size_t per_block;  // at least 2, so that one travels while another is combined
  std::size_t piece;      // bytes

  explicit Pieces(const Ring& r) : ring(r) {
    std::size_t largest = 0;
    for (std::size_t i = 0; i + 1 < r.bounds.size(); ++i)
      largest = std::max(largest, r.bounds[i + 1] - r.bounds[i]);
    // Multiples of 64 bytes hold whole elements of every type.
    piece = std::min(kPiece, ((largest + 1) / 2 + 63) / 64 * 64);
    piece = std::max<std::size_t>(piece, 64);
    per_block = std::max<std::size_t>((largest + piece - 1) / piece, 2);
  }
  std::size_t count() const { return per_block * static_cast<std::size_t>(ring.size - 1); }

  struct Span {
    std::size_t at, bytes;
  };
  // Of step i / per_block, when blocks pass from `first` downwards.
  Span at(std::size_t i, int first) const {
    int step = static_cast<int>(i / per_block);
    auto block = static_cast<std::size_t>(((first - step) % ring.size + ring.size) % ring.size);
    std::size_t begin = std::min(ring.bounds[block] + (i % per_block) * piece, ring.bounds[block + 1]);
    return {begin, std::min(piece, ring.bounds[block + 1] - begin)};
  }
};

}  // namespace

bool Ring::reduce_scatter(ReduceOp op, DType dtype) {
  if (size == 1) return true;
  Pieces pieces(*this);
  int right = (rank + 1) % size, left = (rank - 1 + size) % size;
  auto arrived = std::make_unique_for_overwrite<std::byte[]>(2 * pieces.piece);
  auto from_left = mesh.buffer(arrived.get(), 2 * pieces.piece);
  auto to_right = mesh.buffer(memory, bounds.back());
  std::size_t count = pieces.count();
  for (std::size_t i = 0; i < count + 2; ++i) {
    std::size_t slot = (i % 2) * pieces.piece;
    if (i >= 2) {
      auto got = pieces.at(i - 2, rank - 2), gave = pieces.at(i - 2, rank - 1);
      if (got.bytes != 0) {
        if (!from_left->wait_recv()) return false;
        reduce_into(op, dtype, memory + got.at, arrived.get() + slot, got.bytes / size_of(dtype));
      }
      if (gave.bytes != 0 && !to_right->wait_send()) return false;
    }
    if (i < count) {
      auto get = pieces.at(i, rank - 2), give = pieces.at(i, rank - 1);
      if (get.bytes != 0) from_left->recv(left, tag, slot, get.bytes);
      if (give.bytes != 0) to_right->send(right, tag, give.at, give.bytes);
    }
  }
  return !mesh.failed();
}

bool Ring::all_gather() {
  if (size == 1) return true;
  Pieces pieces(*this);
  int right = (rank + 1) % size, left = (rank - 1 + size) % size;
  auto buffer = mesh.buffer(memory, bounds.back());
  std::size_t count = pieces.count();
  for (std::size_t i = 0; i < count + 2; ++i) {
    if (i >= 2) {
      if (pieces.at(i - 2, rank - 1).bytes != 0 && !buffer->wait_recv()) return false;
      if (pieces.at(i - 2, rank).bytes != 0 && !buffer->wait_send()) return false;
    }
    if (i < count) {
      auto get = pieces.at(i, rank - 1), give = pieces.at(i, rank);
      if (get.bytes != 0) buffer->recv(left, tag, get.at, get.bytes);
      if (give.bytes != 0) buffer->send(right, tag, give.at, give.bytes);
    }
  }
  return !mesh.failed();
}

std::vector<std::size_t> even_bounds(std::int64_t elements, std::size_t element_bytes, int size) {
  std::vector<std::size_t> bounds(1, 0);
  for (int i = 1; i <= size; ++i) {
    std::int64_t whole = elements / size, rest = elements % size;
    bounds.push_back(static_cast<std::size_t>(whole * i + std::min<std::int64_t>(i, rest)) * element_bytes);
  }
  return bounds;
}

std::vector<std::size_t> bounds_of(const std::vector<std::int64_t>& counts, std::size_t element_bytes) {
  std::vector<std::size_t> bounds(1, 0);
  for (std::int64_t count : counts)
    bounds.push_back(bounds.back() + static_cast<std::size_t>(count) * element_bytes);
  return bounds;
}

bool chain_broadcast(Mesh& mesh, int rank, int size, std::uint64_t tag, int root, std::byte* memory,
                     std::size_t bytes) {
  constexpr std::size_t kAhead = 2;
  int place = (rank - root + size) % size;
  int left = (rank - 1 + size) % size, right = (rank + 1) % size;
  bool gets = place != 0, gives = place != size - 1;
  auto from_left = mesh.buffer(memory, bytes), to_right = mesh.buffer(memory, bytes);
  std::size_t count = (bytes + kPiece - 1) / kPiece;
  auto size_at = [&](std::size_t i) { return std::min(kPiece, bytes - i * kPiece); };
  for (std::size_t i = 0; gets && i < std::min(kAhead, count); ++i)
    from_left->recv(left, tag, i * kPiece, size_at(i));
  for (std::size_t i = 0; i < count; ++i) {
    if (gets) {
      if (!from_left->wait_recv()) return false;
      if (i + kAhead < count) from_left->recv(left, tag, (i + kAhead) * kPiece, size_at(i + kAhead));
    }
    if (gives) {
      to_right->send(right, tag, i * kPiece, size_at(i));
      if (i >= kAhead && !to_right->wait_send()) return false;
    }
  }
  for (std::size_t i = 0; gives && i < std::min(kAhead, count); ++i)
    if (!to_right->wait_send()) return false;
  return !mesh.failed();
}

}  // namespace troupe
