#include "runtime/device/background.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

class Background {
 public:
  void post(std::function<void()> work, Clock::time_point at) {
    std::lock_guard lock(mutex_);
    work_.emplace(at, std::move(work));
    more_.notify_one();
    if (std::exchange(started_, true)) return;
    std::thread([this] { run(); }).detach();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (work_.empty()) {
        more_.wait(lock);
        continue;
      }
      auto first = work_.begin();
      if (auto at = first->first; at > Clock::now()) {
        more_.wait_until(lock, at);
        continue;
      }
      auto work = std::move(first->second);
      work_.erase(first);
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::multimap<Clock::time_point, std::function<void()>> work_;
  bool started_ = false;
};

}  // namespace

void in_background(std::function<void()> work, std::chrono::milliseconds after) {
  static auto* one = new Background;  // outlives every thread
  one->post(std::move(work), Clock::now() + after);
}

}  // namespace troupe
