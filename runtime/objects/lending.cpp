#include "runtime/objects/lending.h"

#include <algorithm>

namespace troupe {

bool LentMemory::takes(const ObjectHandle& object) const {
  return lent_.size() < kMost && object.size() <= ObjectClient::kLargestReserved;
}

ObjectClient::Traveller LentMemory::lend(ObjectHandle& object) {
  ObjectClient::Traveller out;
  lent_.push_back(ObjectClient::get().lend(object, out));
  return out;
}

void LentMemory::spent(std::uint32_t slot) {
  auto at = std::find_if(lent_.begin(), lent_.end(), [slot](const auto& one) { return one.slot() == slot; });
  if (at == lent_.end()) return;
  std::swap(*at, lent_.back());
  auto space = std::move(lent_.back());
  lent_.pop_back();
  ObjectClient::get().put_back(std::move(space));
}

}  // namespace troupe
