// Byte buffers of the codec. A Writer appends to memory that it keeps between uses; a Reader walks over bytes
// that somebody else owns. A Reader never reads past its end: it throws DecodeError, which ends the one
// message only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>

#include "core/codec/attachment.h"

namespace troupe {

class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Writer {
 public:
  void append(const void* data, std::size_t size) {
    if (size > capacity_ - size_) grow(size);
    if (size != 0) std::memcpy(data_.get() + size_, data, size);
    size_ += size;
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }
  void clear() {
    size_ = 0;
    if (attachments_) attachments_.reset();
  }
  // Gives big memory back, so that one large message does not stay paid for.
  void trim(std::size_t keep = 64 << 10) {
    if (capacity_ > keep) *this = Writer();
    clear();
  }

  // What the message refers to besides its bytes; returns its place among them. Who sends the message sends
  // them along; who only keeps the bytes must refuse messages with attachments.
  std::size_t attach(Ref<Attachment> what) {
    if (!attachments_) attachments_ = std::make_unique<Attachments>();
    attachments_->push_back(std::move(what));
    return attachments_->size() - 1;
  }
  bool has_attachments() const { return attachments_ != nullptr; }
  std::unique_ptr<Attachments> take_attachments() { return std::move(attachments_); }

  // The reader shares memory with the writer: bulk may be attached instead of written.
  void set_sharing(bool sharing) { sharing_ = sharing; }
  bool sharing() const { return sharing_; }

 private:
  void grow(std::size_t size);

  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
  std::unique_ptr<Attachments> attachments_;
  bool sharing_ = false;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes, const Attachments* attachments = nullptr)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), attachments_(attachments) {}
  void read(void* to, std::size_t size) {
    if (size > remaining()) fail();
    if (size != 0) std::memcpy(to, at_, size);
    at_ += size;
  }
  std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }
  // What the message has attached at that place; throws DecodeError when there is nothing of that kind.
  Attachment& attachment(std::size_t index, Attachment::Kind kind = Attachment::Kind::object) const {
    if (attachments_ == nullptr || index >= attachments_->size() || (*attachments_)[index]->kind() != kind)
      no_attachment();
    return *(*attachments_)[index];
  }

 private:
  [[noreturn]] static void fail();
  [[noreturn]] static void no_attachment();

  const std::byte* at_;
  const std::byte* end_;
  const Attachments* attachments_;
};

}  // namespace troupe
