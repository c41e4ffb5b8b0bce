// This process's pins: the table has one byte for each slot and process, and this counts who reads the slot
// here. Handles may name a slot by an old hint, under which another object lies that is read: the byte is
// cleared when nobody is left.
//
// Owner: the session. Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "runtime/objects/object_table.h"

namespace troupe {

class PinPage {
 public:
  PinPage(ObjectTable& table, std::uint32_t page) : table_(table), page_(page) {}
  // Pins the slot if it holds that object, sealed.
  std::optional<ObjectTable::Where> pin(std::uint32_t slot, const ObjectId& id);
  void unpin(std::uint32_t slot);

 private:
  void release(std::uint32_t slot);  // its mutex is held

  ObjectTable& table_;
  const std::uint32_t page_;
  std::mutex mutex_;                                          // guards what follows
  std::unordered_map<std::uint32_t, std::uint32_t> readers_;  // by slot
};

}  // namespace troupe
