#include "core/link/out_queue.h"

#include <algorithm>
#include <cstring>

#include "core/link/frame_header.h"

namespace troupe {

namespace {
constexpr std::size_t kSpareChunks = 4;
}

std::byte* OutQueue::push(std::size_t size) {
  std::size_t need = kFrameHeader + size;
  bool fresh = false;
  if (chunks_.empty() || chunks_.back().capacity - chunks_.back().end < need) {
    if (bytes_ == 0 && !chunks_.empty()) {  // an empty one must not stay in front
      if (spare_.size() < kSpareChunks) spare_.push_back(std::move(chunks_.front()));
      chunks_.clear();
    }
    if (need <= kChunk && !spare_.empty()) {
      chunks_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    } else {
      Chunk chunk;
      chunk.capacity = std::max(need, kChunk);
      // Large ones come zeroed from the system, which spares a pass over them.
      fresh = need > kChunk;
      chunk.memory.reset(
          static_cast<std::byte*>(fresh ? std::calloc(1, chunk.capacity) : std::malloc(chunk.capacity)));
      if (!chunk.memory) return nullptr;
      chunks_.push_back(std::move(chunk));
    }
  }
  Chunk& chunk = chunks_.back();
  std::byte* at = chunk.memory.get() + chunk.end;
  store_header(at, {static_cast<std::uint32_t>(size), kWhole});
  if (!fresh) std::memset(at + kFrameHeader, 0, size);
  chunk.end += need;
  bytes_ += need;
  return at + kFrameHeader;
}

std::span<const std::byte> OutQueue::front() const {
  if (chunks_.empty()) return {};
  const Chunk& chunk = chunks_.front();
  return {chunk.memory.get() + chunk.begin, chunk.end - chunk.begin};
}

std::size_t OutQueue::gather(iovec* into, std::size_t most) const {
  std::size_t n = 0;
  for (auto chunk = chunks_.begin(); chunk != chunks_.end() && n < most; ++chunk) {
    if (chunk->begin == chunk->end) continue;
    into[n++] = {chunk->memory.get() + chunk->begin, chunk->end - chunk->begin};
  }
  return n;
}

void OutQueue::pop(std::size_t n) {
  bytes_ -= n;
  while (!chunks_.empty()) {
    Chunk& chunk = chunks_.front();
    std::size_t taken = std::min(n, chunk.end - chunk.begin);
    chunk.begin += taken;
    n -= taken;
    if (chunk.begin != chunk.end) return;
    chunk.begin = chunk.end = 0;
    if (chunk.capacity == kChunk) {
      if (chunks_.size() == 1) return;  // the next frame starts here again
      if (spare_.size() < kSpareChunks) spare_.push_back(std::move(chunk));
    }
    chunks_.pop_front();
  }
}

void OutQueue::clear() {
  chunks_.clear();
  spare_.clear();
  bytes_ = 0;
}

}  // namespace troupe
