// The shared memory of a node's objects: the arena, one sparse memfd for their bytes, and the table, a second
// one with a slot for each object in memory and a pin page for each process.
//
// A process reads an object without a message. It sets its pin of the slot, then looks whether the slot still
// holds that object, sealed. The agent that wants the memory back marks the slot as evicting, then looks at
// the pins of all processes, and takes the mark back when one is set. Both orders are sequentially
// consistent, so one of the two always sees the other (hazard pointers). The agent clears the pins of a
// process that has died.
//
// Owner: the agent makes it, the processes of the node map it. Both files are sealed against shrinking and
// growing. Any thread; a pin belongs to the process, which counts its own readers. What lies in the table is
// believed only for reading: the agent decides by what it knows itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/os/fd.h"
#include "core/os/mapping.h"
#include "runtime/objects/slot_table.h"

namespace troupe {

inline constexpr std::uint32_t kObjectSlots = 1 << 17;      // objects in memory at once, and blanks
inline constexpr std::uint32_t kObjectProcesses = 1 << 12;  // pin pages: processes attached at once

enum class SlotState : std::uint32_t { free = 0, writing = 1, sealed = 2, evicting = 3 };

struct alignas(64) ObjectSlot {
  std::atomic<std::uint64_t> node, number;  // of the id
  std::atomic<std::uint64_t> offset, size;
  std::atomic<SlotState> state;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(ObjectSlot) == 64);

// The two descriptors, as they are handed to processes.
struct ObjectMemoryFds {
  UniqueFd arena, table;
};

class ObjectTable final : public SlotTable {
 public:
  struct Where {
    std::uint64_t offset = 0, size = 0;
  };

  // The agent's. `capacity`: bytes of the arena, a multiple of 2 MiB.
  static Result<std::unique_ptr<ObjectTable>> create(std::uint64_t capacity);
  // A process's; refuses memory that is not what create() makes.
  static Result<std::unique_ptr<ObjectTable>> map(ObjectMemoryFds fds);

  const ObjectMemoryFds& fds() const { return fds_; }
  std::uint64_t capacity() const { return capacity_; }
  // The arena, mapped on the first use; null with `error` set when there is no address space for it.
  const std::byte* readable(Error* error);
  std::byte* writable(Error* error);

  // ---- a process ----
  // Where that object lies, if the slot holds it, sealed. Of a slot that was pinned before, it stays so.
  std::optional<Where> look(std::uint32_t slot, const ObjectId& id) const;
  void unpin(std::uint32_t slot, std::uint32_t page);
  // The creator has written its blank.
  void seal(std::uint32_t slot, const ObjectId& id, std::uint64_t size);

  // ---- the agent ----
  void open_page(std::uint32_t page);  // a process attaches; seize() looks at open pages only
  void close_page(std::uint32_t page);
  void blank(std::uint32_t slot, std::uint64_t offset, std::uint64_t size) override;
  void publish(std::uint32_t slot, const ObjectId& id, std::uint64_t size) override;
  bool seize(std::uint32_t slot) override;
  void give_back(std::uint32_t slot) override;
  void clear(std::uint32_t slot) override;
  void pin(std::uint32_t slot, std::uint32_t page) override;  // a process does so, too
  bool pinned(std::uint32_t slot) const override;
  bool sealed(std::uint32_t slot) const override;

 private:
  ObjectTable() = default;
  ObjectSlot& at(std::uint32_t slot) const;
  std::atomic<std::uint8_t>& pin_of(std::uint32_t slot, std::uint32_t page) const;

  ObjectMemoryFds fds_;
  std::uint64_t capacity_ = 0;
  Mapping table_;
  std::atomic<std::byte*> read_{nullptr}, write_{nullptr};
  Mapping mapped_read_, mapped_write_;
  std::vector<std::uint32_t> pages_;  // the agent's
};

}  // namespace troupe
