// What the store's decisions (store_core.h) need of the shared table of objects. The product's is ObjectTable
// (object_table.h); tests have one of their own.
#pragma once

#include <cstdint>

#include "runtime/objects/object_id.h"

namespace troupe {

class SlotTable {
 public:
  // A slot for an object that is being written by a process, or filled by the agent.
  virtual void blank(std::uint32_t slot, std::uint64_t offset, std::uint64_t size) = 0;
  // The agent has filled it: readable from now on.
  virtual void publish(std::uint32_t slot, const ObjectId& id, std::uint64_t size) = 0;
  // Takes the slot from its readers: false when one of them reads it just now, and nothing has changed.
  virtual bool seize(std::uint32_t slot) = 0;
  virtual void give_back(std::uint32_t slot) = 0;  // after seize: readable again
  virtual void clear(std::uint32_t slot) = 0;      // after seize, or of a blank
  // Pins it for a process, before that is told where the object lies.
  virtual void pin(std::uint32_t slot, std::uint32_t page) = 0;
  virtual bool pinned(std::uint32_t slot) const = 0;
  virtual bool sealed(std::uint32_t slot) const = 0;  // a blank that is: lent with a message (lending.h)

 protected:
  ~SlotTable() = default;
};

}  // namespace troupe
