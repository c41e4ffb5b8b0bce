// Gives memory that came with messages of a link back to its sender (lending.h), on the link's lane. What is
// read for longer than the link lives goes to the store with the sender's end.
//
// Owner: the link's end that reads, and what it has read. Any thread.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/objects/lending.h"

namespace troupe {

class Lane;
class Peer;

class LinkLender final : public Lender, public std::enable_shared_from_this<LinkLender> {
 public:
  LinkLender(Lane& lane, Peer& peer) : lane_(&lane), peer_(&peer) {}
  void spent(std::uint32_t slot) override;
  void end();  // the link is gone; on its lane

 private:
  std::mutex mutex_;  // guards what follows
  Lane* lane_;
  Peer* peer_;  // lives as long as it is here; used on its lane
};

}  // namespace troupe
