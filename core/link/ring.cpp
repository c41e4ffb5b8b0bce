#include "core/link/ring.h"

namespace troupe {

std::size_t RingWriter::footprint(std::size_t size) const {
  std::size_t to_end = capacity_ - (head_ & (capacity_ - 1));
  std::size_t need = kFrameHeader + size;
  return need <= to_end ? need : to_end + need;
}

bool RingWriter::fits(std::size_t bytes) {
  if (capacity_ - (head_ - tail_) >= bytes) return true;
  if (broken_) return false;
  std::uint64_t tail = control_->tail.load(std::memory_order_seq_cst);
  // The reader cannot go back, nor read what was not published.
  if (tail - tail_ > published_ - tail_ || tail % 8 != 0) {
    broken_ = "the peer's read index is false";
    return false;
  }
  tail_ = tail;
  return capacity_ - (head_ - tail_) >= bytes;
}

std::byte* RingWriter::reserve(std::size_t size, std::uint32_t flags) {
  std::size_t total = footprint(size);
  if (!fits(total)) return nullptr;
  std::size_t place = head_ & (capacity_ - 1);
  if (total != kFrameHeader + size) {
    store_header(data_ + place, {0, kSkip});
    place = 0;
  }
  store_header(data_ + place, {static_cast<std::uint32_t>(size), flags});
  reserved_ = total;
  return data_ + place + kFrameHeader;
}

bool RingWriter::publish() {
  if (head_ == published_) return false;
  published_ = head_;
  control_->head.store(head_, std::memory_order_seq_cst);
  if (control_->reader_sleeps.load(std::memory_order_seq_cst) == 0) return false;
  return control_->reader_sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingWriter::prepare_wait(std::size_t size) {
  control_->writer_waits.store(1, std::memory_order_seq_cst);
  if (!fits(footprint(size)) && !broken_) return true;
  cancel_wait();
  return false;
}

bool RingReader::look(std::memory_order order) {
  std::uint64_t head = control_->head.load(order);
  if (head == tail_) return false;
  // The writer cannot be further ahead than the ring is long.
  if (head - tail_ > capacity_ - (tail_ - released_) || head % 8 != 0) {
    broken_ = "the peer's write index is false";
    return false;
  }
  head_ = head;
  return true;
}

bool RingReader::next(Piece& piece) {
  if (broken_) return false;
  if (head_ == tail_ && !look(std::memory_order_acquire)) return false;
  std::size_t place = tail_ & (capacity_ - 1);
  FrameHeader header = load_header(data_ + place);
  if (header.flags == kSkip) {
    std::size_t to_end = capacity_ - place;
    // At place 0 nothing can need a skip; and a skip is always published together with what follows.
    if (header.length != 0 || place == 0 || head_ - tail_ <= to_end) {
      broken_ = "the peer wrote a false skip marker";
      return false;
    }
    tail_ += to_end;
    place = 0;
    header = load_header(data_);
  }
  if (header.flags > kMore || header.length % 8 != 0 || (header.flags == kMore && header.length == 0)) {
    broken_ = "the peer wrote a false frame header";
    return false;
  }
  std::size_t available = head_ - tail_;
  if (header.length > max_piece(capacity_) || kFrameHeader + header.length > available ||
      kFrameHeader + header.length > capacity_ - place) {
    broken_ = "the peer wrote a false frame length";
    return false;
  }
  piece.bytes = {data_ + place + kFrameHeader, header.length};
  piece.more = header.flags == kMore;
  tail_ += kFrameHeader + header.length;
  return true;
}

bool RingReader::release() {
  if (released_ == tail_) return false;
  released_ = tail_;
  control_->tail.store(tail_, std::memory_order_seq_cst);
  // A waiting writer is woken when its next piece fits for sure, not for every few bytes.
  if (head_ - tail_ > capacity_ / 2) return false;
  if (control_->writer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return control_->writer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingReader::prepare_sleep() {
  control_->reader_sleeps.store(1, std::memory_order_seq_cst);
  if (control_->head.load(std::memory_order_seq_cst) == tail_) return true;
  cancel_sleep();
  return false;
}

}  // namespace troupe
