#include "runtime/objects/pin_page.h"

namespace troupe {

std::optional<ObjectTable::Where> PinPage::pin(std::uint32_t slot, const ObjectId& id) {
  if (slot >= kObjectSlots || page_ >= kObjectProcesses) return std::nullopt;
  std::lock_guard lock(mutex_);
  // Always: the byte may have been cleared since the agent set it.
  ++readers_[slot];
  table_.pin(slot, page_);
  auto where = table_.look(slot, id);
  if (!where) release(slot);
  return where;
}

void PinPage::unpin(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  release(slot);
}

void PinPage::release(std::uint32_t slot) {
  auto at = readers_.find(slot);
  if (at == readers_.end() || --at->second > 0) return;
  readers_.erase(at);
  table_.unpin(slot, page_);
}

}  // namespace troupe
