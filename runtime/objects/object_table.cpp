#include "runtime/objects/object_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace troupe {
namespace {

constexpr std::size_t kHeader = 4096;
constexpr std::size_t kTableBytes =
    kHeader + std::size_t{kObjectSlots} * sizeof(ObjectSlot) + std::size_t{kObjectProcesses} * kObjectSlots;
constexpr std::uint64_t kLargePage = 2 << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<UniqueFd> sealed_file(const char* name, std::uint64_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error(errno, "memfd_create for the node's objects");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return system_error(errno, "sizing the shared memory of the node's objects");
  return fd;
}

Result<std::uint64_t> sealed_size(const UniqueFd& fd) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error(errno, "the shared memory of the node's objects");
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (!S_ISREG(status.st_mode) || seals < 0 ||
      (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
    return Error(ErrorKind::invalid_argument,
                 "the shared memory of the node's objects is not sealed against shrinking");
  return static_cast<std::uint64_t>(status.st_size);
}

std::mutex mapping_mutex;

}  // namespace

Result<std::unique_ptr<ObjectTable>> ObjectTable::create(std::uint64_t capacity) {
  capacity = std::max(capacity / kLargePage, std::uint64_t{1}) * kLargePage;
  auto arena = sealed_file("troupe-objects", capacity);
  if (!arena) return arena.error();
  auto table = sealed_file("troupe-object-table", kTableBytes);
  if (!table) return table.error();
  return map({std::move(*arena), std::move(*table)});
}

Result<std::unique_ptr<ObjectTable>> ObjectTable::map(ObjectMemoryFds fds) {
  auto arena = sealed_size(fds.arena);
  if (!arena) return arena.error();
  auto table = sealed_size(fds.table);
  if (!table) return table.error();
  if (*table != kTableBytes || *arena == 0 || *arena % kLargePage != 0)
    return Error(ErrorKind::mismatch, "the node's object memory is of another version than this program");
  auto mapping = Mapping::shared(fds.table.get(), kTableBytes);
  if (!mapping) return mapping.error();
  auto made = std::unique_ptr<ObjectTable>(new ObjectTable);
  made->capacity_ = *arena;
  made->fds_ = std::move(fds);
  made->table_ = std::move(*mapping);
  return made;
}

const std::byte* ObjectTable::readable(Error* error) {
  if (const std::byte* at = read_.load(std::memory_order_acquire)) return at;
  std::lock_guard lock(mapping_mutex);
  if (mapped_read_.data() == nullptr) {
    auto mapped = Mapping::shared(fds_.arena.get(), capacity_, false);
    if (!mapped) {
      if (error != nullptr) *error = mapped.error();
      return nullptr;
    }
    mapped_read_ = std::move(*mapped);
    ::madvise(mapped_read_.data(), capacity_, MADV_HUGEPAGE);
  }
  read_.store(mapped_read_.data(), std::memory_order_release);
  return mapped_read_.data();
}

std::byte* ObjectTable::writable(Error* error) {
  if (std::byte* at = write_.load(std::memory_order_acquire)) return at;
  std::lock_guard lock(mapping_mutex);
  if (mapped_write_.data() == nullptr) {
    auto mapped = Mapping::shared(fds_.arena.get(), capacity_);
    if (!mapped) {
      if (error != nullptr) *error = mapped.error();
      return nullptr;
    }
    mapped_write_ = std::move(*mapped);
    // Large pages make first touches cheap; where the system has none, small ones do.
    ::madvise(mapped_write_.data(), capacity_, MADV_HUGEPAGE);
  }
  write_.store(mapped_write_.data(), std::memory_order_release);
  return mapped_write_.data();
}

ObjectSlot& ObjectTable::at(std::uint32_t slot) const {
  return reinterpret_cast<ObjectSlot*>(table_.data() + kHeader)[slot];
}

std::atomic<std::uint8_t>& ObjectTable::pin_of(std::uint32_t slot, std::uint32_t page) const {
  auto* pins = table_.data() + kHeader + std::size_t{kObjectSlots} * sizeof(ObjectSlot);
  return reinterpret_cast<std::atomic<std::uint8_t>*>(pins)[std::size_t{page} * kObjectSlots + slot];
}

std::optional<ObjectTable::Where> ObjectTable::look(std::uint32_t slot, const ObjectId& id) const {
  ObjectSlot& there = at(slot);
  if (there.state.load(std::memory_order_seq_cst) == SlotState::sealed &&
      there.number.load(std::memory_order_relaxed) == id.number &&
      there.node.load(std::memory_order_relaxed) == id.node.value) {
    Where where{there.offset.load(std::memory_order_relaxed), there.size.load(std::memory_order_relaxed)};
    if (where.offset <= capacity_ && where.size <= capacity_ - where.offset) return where;
  }
  return std::nullopt;
}

void ObjectTable::unpin(std::uint32_t slot, std::uint32_t page) {
  pin_of(slot, page).store(0, std::memory_order_release);
}

void ObjectTable::seal(std::uint32_t slot, const ObjectId& id, std::uint64_t size) {
  publish(slot, id, size);
}

void ObjectTable::open_page(std::uint32_t page) {
  close_page(page);
  pages_.push_back(page);
}

void ObjectTable::close_page(std::uint32_t page) {
  std::erase(pages_, page);
  auto offset = static_cast<off_t>(kHeader + std::size_t{kObjectSlots} * sizeof(ObjectSlot) +
                                   std::size_t{page} * kObjectSlots);
  // A hole reads as zeros, and takes no memory.
  ::fallocate(fds_.table.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, kObjectSlots);
}

void ObjectTable::blank(std::uint32_t slot, std::uint64_t offset, std::uint64_t size) {
  ObjectSlot& there = at(slot);
  there.number.store(0, std::memory_order_relaxed);
  there.node.store(0, std::memory_order_relaxed);
  there.offset.store(offset, std::memory_order_relaxed);
  there.size.store(size, std::memory_order_relaxed);
  there.state.store(SlotState::writing, std::memory_order_release);
}

void ObjectTable::publish(std::uint32_t slot, const ObjectId& id, std::uint64_t size) {
  ObjectSlot& there = at(slot);
  there.node.store(id.node.value, std::memory_order_relaxed);
  there.number.store(id.number, std::memory_order_relaxed);
  there.size.store(size, std::memory_order_relaxed);
  there.state.store(SlotState::sealed, std::memory_order_seq_cst);
}

bool ObjectTable::pinned(std::uint32_t slot) const {
  return std::any_of(pages_.begin(), pages_.end(), [&](std::uint32_t page) {
    return pin_of(slot, page).load(std::memory_order_seq_cst) != 0;
  });
}

bool ObjectTable::sealed(std::uint32_t slot) const {
  return at(slot).state.load(std::memory_order_seq_cst) == SlotState::sealed;
}

bool ObjectTable::seize(std::uint32_t slot) {
  ObjectSlot& there = at(slot);
  SlotState before = there.state.exchange(SlotState::evicting, std::memory_order_seq_cst);
  if (!pinned(slot)) return true;
  there.state.store(before, std::memory_order_seq_cst);
  return false;
}

void ObjectTable::give_back(std::uint32_t slot) {
  at(slot).state.store(SlotState::sealed, std::memory_order_seq_cst);
}

void ObjectTable::clear(std::uint32_t slot) {
  at(slot).state.store(SlotState::free, std::memory_order_seq_cst);
}

void ObjectTable::pin(std::uint32_t slot, std::uint32_t page) {
  pin_of(slot, page).store(1, std::memory_order_seq_cst);
}

}  // namespace troupe
