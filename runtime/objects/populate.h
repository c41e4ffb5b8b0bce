// Makes the first bytes of the arena ready before they are wanted: fresh shared memory costs several times
// what the copy into it does.
//
// A child process of the lowest priority writes to the pages through a window of its own. In this process a
// thread doing so would hold the lock of the address space while it waits for its turn, and on a busy machine
// keep the control thread from it for seconds; and fallocate leaves the zeroing to the first who comes.
//
// Owner: ObjectService. A thread drives the child one step at a time; dropping this kills the child and
// waits for both to end. The child dies with this process, too.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "core/os/fd.h"

namespace troupe {

class Populate {
 public:
  // `made` is called on that thread with the number of bytes that are ready. Stops early when there is not
  // enough memory.
  Populate(int arena, std::uint64_t bytes, std::chrono::milliseconds after,
           std::function<void(std::uint64_t)> made, std::function<bool()> enough = quarter_is_free);
  ~Populate();

  static bool quarter_is_free();  // of the machine's memory

 private:
  void run(int arena, std::uint64_t bytes, std::chrono::milliseconds after);
  bool start(int arena, int talk, std::uint64_t bytes);

  std::function<void(std::uint64_t)> made_;
  std::function<bool()> enough_;
  std::mutex mutex_;
  std::condition_variable told_;
  bool stopping_ = false;
  UniqueFd child_;  // its pidfd
  std::thread thread_;
};

}  // namespace troupe
