// Memory that is lent with a message: a blank of the sender's, sealed for its one reader, who gives it back.
// The store is not told: for it the memory stays the sender's blank. What the reader has pinned outlives the
// sender all the same, as anything pinned does. So a message with a tensor costs a copy, and the next one
// finds the same memory, still in the caches.
//
//   lend() ──frame──▶ ObjectClient::borrow(), read, dropped ──spent frame──▶ spent()
//
// A reader that keeps what it got keeps the memory: of more than kMost the store counts references as of any
// object. Owner: the link's end that sends. Thread: its lane. When it goes, so does what it has lent: the
// store has it back when it is not pinned any more. What a dead process had lent waits for its reader first
// (StoreCore::kTransitLease).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/objects/object_client.h"

namespace troupe {

// At the reader's: told when memory is not read any more. Any thread.
class Lender {
 public:
  virtual ~Lender() = default;
  virtual void spent(std::uint32_t slot) = 0;
};

class LentMemory {
 public:
  static constexpr std::size_t kMost = 8;  // and each at most ObjectClient::kLargestReserved

  // Whether it may be lent; it was not sealed yet.
  bool takes(const ObjectHandle& object) const;
  ObjectClient::Traveller lend(ObjectHandle& object);
  void spent(std::uint32_t slot);  // others than those lent are ignored
  std::size_t size() const { return lent_.size(); }

 private:
  std::vector<ObjectClient::Space> lent_;
};

}  // namespace troupe
