#include "runtime/device/pinned_pool.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <vector>

#include "core/base/clock.h"
#include "runtime/device/background.h"

namespace troupe {
namespace {

struct Idle {
  std::byte* bytes;
  std::size_t size;
  std::int64_t since;
};

}  // namespace

struct PinnedPool::State : std::enable_shared_from_this<State> {
  State(DeviceDriver& d, Limits l) : driver(d), limits(l) {}

  void put(std::byte* bytes, std::size_t size);
  void free_all(const std::vector<Idle>& gone) {
    for (const Idle& one : gone) driver.release_host(one.bytes);
  }
  void watch();
  void trim();

  DeviceDriver& driver;
  const Limits limits;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<Idle> idle;  // the one used last is the last
  std::size_t total = 0, idle_bytes = 0;
  bool ended = false, watched = false;
};

PinnedPool::PinnedPool(DeviceDriver& driver, Limits limits)
    : state_(std::make_shared<State>(driver, limits)) {}

PinnedPool::~PinnedPool() {
  std::vector<Idle> gone;
  {
    std::lock_guard lock(state_->mutex);
    state_->ended = true;
    gone.swap(state_->idle);
    state_->total -= std::exchange(state_->idle_bytes, 0);
  }
  state_->free_all(gone);
}

PinnedPool::Buffer::~Buffer() {
  if (bytes_ != nullptr) state_->put(bytes_, size_);
}

PinnedPool::Use PinnedPool::use() const {
  std::lock_guard lock(state_->mutex);
  return {state_->total - state_->idle_bytes, state_->idle_bytes};
}

Result<PinnedPool::Buffer> PinnedPool::take(std::size_t wanted, std::int64_t deadline) {
  State& s = *state_;
  std::size_t size = kLargest;
  for (std::size_t one : kSizes) {
    if (one >= wanted && one < size) size = one;
  }
  Buffer out;
  out.size_ = size;
  std::vector<Idle> gone;
  {
    std::unique_lock lock(s.mutex);
    for (;;) {
      auto at =
          std::find_if(s.idle.rbegin(), s.idle.rend(), [&](const Idle& one) { return one.size == size; });
      if (at != s.idle.rend()) {
        out.bytes_ = at->bytes;
        s.idle_bytes -= size;
        s.idle.erase(std::next(at).base());
        break;
      }
      // Idle ones of other sizes make room, the oldest first.
      while (s.total + size > s.limits.total && !s.idle.empty()) {
        gone.push_back(s.idle.front());
        s.total -= s.idle.front().size;
        s.idle_bytes -= s.idle.front().size;
        s.idle.erase(s.idle.begin());
      }
      if (s.total + size <= s.limits.total) {
        s.total += size;
        break;
      }
      std::int64_t left = deadline - steady_ns();
      if (left <= 0)
        return Error(ErrorKind::deadline_exceeded,
                     "no staging buffer became free within the limit: all " + std::to_string(s.limits.total) +
                         " bytes of page-locked memory are in use by other copies");
      s.changed.wait_for(lock, std::chrono::nanoseconds(left));
    }
  }
  s.free_all(gone);
  out.state_ = state_;
  if (out.bytes_ != nullptr) return out;
  auto made = s.driver.allocate_host(size);
  if (made) {
    out.bytes_ = static_cast<std::byte*>(*made);
    return out;
  }
  std::lock_guard lock(s.mutex);
  s.total -= size;
  s.changed.notify_all();
  return made.error();
}

void PinnedPool::State::put(std::byte* bytes, std::size_t size) {
  {
    std::lock_guard lock(mutex);
    if (!ended) {
      idle.push_back({bytes, size, steady_ns()});
      idle_bytes += size;
      bytes = nullptr;
      if (!std::exchange(watched, true)) watch();
    } else {
      total -= size;
    }
    changed.notify_all();
  }
  if (bytes != nullptr) driver.release_host(bytes);
}

void PinnedPool::State::watch() {
  in_background(
      [weak = weak_from_this()] {
        if (auto self = weak.lock()) self->trim();
      },
      limits.idle);
}

void PinnedPool::State::trim() {
  std::vector<Idle> gone;
  {
    std::lock_guard lock(mutex);
    std::int64_t before = steady_ns() - std::chrono::nanoseconds(limits.idle).count();
    std::erase_if(idle, [&](const Idle& one) {
      if (one.since > before) return false;
      gone.push_back(one);
      total -= one.size;
      idle_bytes -= one.size;
      return true;
    });
    watched = !idle.empty() && !ended;
    if (watched) watch();
  }
  free_all(gone);
}

}  // namespace troupe
