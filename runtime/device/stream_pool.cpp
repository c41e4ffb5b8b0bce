#include "runtime/device/stream_pool.h"

#include <algorithm>

namespace troupe {

// What never ended is left as it is: giving it back would wait for the device.
StreamPool::~StreamPool() {
  collect();
  for (const Lane& lane : idle_) drop(lane);
  static auto* lost = new std::vector<Aside>;
  static std::mutex guard;
  std::lock_guard lock(guard);
  for (Aside& one : aside_) lost->push_back(std::move(one));
}

void StreamPool::drop(const Lane& lane) {
  for (auto event : lane.events) {
    if (event != nullptr) driver_.drop_event(lane.device, event);
  }
  if (lane.stream != nullptr) driver_.drop_stream(lane.device, lane.stream);
}

Result<StreamPool::Lane> StreamPool::take(int device) {
  collect();
  {
    std::lock_guard lock(mutex_);
    auto at =
        std::find_if(idle_.rbegin(), idle_.rend(), [&](const Lane& one) { return one.device == device; });
    if (at != idle_.rend()) {
      Lane lane = *at;
      idle_.erase(std::next(at).base());
      return lane;
    }
  }
  Lane lane;
  lane.device = device;
  auto stream = driver_.make_stream(device);
  if (!stream) return stream.error();
  lane.stream = *stream;
  for (auto& event : lane.events) {
    auto made = driver_.make_event(device);
    if (!made) {
      drop(lane);
      return made.error();
    }
    event = *made;
  }
  return lane;
}

void StreamPool::give_back(Lane lane) {
  {
    std::lock_guard lock(mutex_);
    auto same =
        std::count_if(idle_.begin(), idle_.end(), [&](const Lane& one) { return one.device == lane.device; });
    if (static_cast<std::size_t>(same) < kIdle) {
      idle_.push_back(lane);
      return;
    }
  }
  drop(lane);
}

void StreamPool::set_aside(Lane lane, PinnedPool::Buffer buffer, std::shared_ptr<const void> memory) {
  bool watched = bool(driver_.record(lane.device, lane.events[0], lane.stream));
  std::lock_guard lock(mutex_);
  aside_.push_back({lane, std::move(buffer), std::move(memory), watched});
}

std::size_t StreamPool::aside() const {
  std::lock_guard lock(mutex_);
  return aside_.size();
}

void StreamPool::collect() {
  std::vector<Aside> over;  // what they keep is given back without the lock
  {
    std::lock_guard lock(mutex_);
    for (auto at = aside_.begin(); at != aside_.end();) {
      auto done = at->watched ? driver_.done(at->lane.device, at->lane.events[0]) : Result<bool>(false);
      if (!done || !*done) {
        ++at;
        continue;
      }
      over.push_back(std::move(*at));
      at = aside_.erase(at);
    }
  }
  for (const Aside& one : over) give_back(one.lane);
}

}  // namespace troupe
