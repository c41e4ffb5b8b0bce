// Makes the first bytes of the arena ready before they are wanted: fresh shared memory costs several times
// what the copy into it does. A thread of the lowest priority, which ends when it is through.
//
// Owner: ObjectService. Dropping it ends the thread within one step.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe {

class Populate {
 public:
  // `made` is called on that thread with the number of bytes that are ready. Stops early when the machine
  // runs short of memory.
  Populate(int arena, std::uint64_t bytes, std::chrono::milliseconds after,
           std::function<void(std::uint64_t)> made);
  ~Populate();

 private:
  void run(int arena, std::uint64_t bytes, std::chrono::milliseconds after);

  std::function<void(std::uint64_t)> made_;
  std::mutex mutex_;
  std::condition_variable told_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe
