// What one node has and what is taken of it. Pure; used by Placement only.
//
// Amounts are exact. GPUs are slots with identity: a request below one shares a slot with other fractions
// only, a whole request takes whole free slots, so the two never meet on one GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/resources.h"

namespace troupe::gcs {

using GpuSlots = std::vector<std::uint16_t>;

// Refuses requests no accounting can hold: negative amounts, 1.5 GPUs.
Result<void> check_request(const Resources& wanted);

class NodeSlots {
 public:
  explicit NodeSlots(Resources total);

  bool could_hold(const Resources& wanted) const;             // if nothing else ran here
  bool fits(const Resources& wanted) const;                   // now
  GpuSlots take(const Resources& wanted);                     // precondition: fits(wanted)
  bool claim(const Resources& wanted, const GpuSlots& gpus);  // exactly these slots; false: not free
  void give_back(const Resources& wanted, const GpuSlots& gpus);

  const Resources& total() const { return total_; }
  const Resources& free() const { return free_; }
  std::string check() const;  // empty, or which invariant is broken

 private:
  struct Slot {
    std::int64_t used = 0;
    bool whole = false;
  };
  int slot_for_fraction(std::int64_t units) const;  // -1: none
  std::size_t free_slots() const;

  Resources total_;
  Resources free_;
  std::vector<Slot> slots_;
};

}  // namespace troupe::gcs
