#include "runtime/call/link_lender.h"

#include "runtime/call/peer.h"
#include "runtime/lane/lane.h"

namespace troupe {

void LinkLender::spent(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  if (peer_ == nullptr) return;
  if (Lane::current() == lane_) return peer_->spent(slot);
  lane_->post_function([self = shared_from_this(), slot] { self->spent(slot); });
}

void LinkLender::end() {
  std::lock_guard lock(mutex_);
  peer_ = nullptr;
}

}  // namespace troupe
