#include "runtime/objects/populate.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/agent/memory_use.h"

namespace troupe {
namespace {

constexpr std::uint64_t kStep = 4 << 20;

bool short_of_memory() {
  auto memory = machine_memory();
  return memory.available < memory.total / 4;
}

}  // namespace

Populate::Populate(int arena, std::uint64_t bytes, std::chrono::milliseconds after,
                   std::function<void(std::uint64_t)> made)
    : made_(std::move(made)), thread_([this, arena, bytes, after] { run(arena, bytes, after); }) {}

Populate::~Populate() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  told_.notify_one();
  thread_.join();
}

void Populate::run(int arena, std::uint64_t bytes, std::chrono::milliseconds after) {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
  std::unique_lock lock(mutex_);
  if (told_.wait_for(lock, after, [this] { return stopping_; })) return;
  for (std::uint64_t at = 0; at < bytes && !stopping_; at += kStep) {
    lock.unlock();
    std::uint64_t size = std::min(kStep, bytes - at);
    bool good = !short_of_memory();
    // Pages are made without mapping them. A mapping would be populated under the lock of the process's
    // address space: on a busy machine a thread of the lowest priority then keeps the control thread waiting
    // for seconds.
    good = good && ::fallocate(arena, 0, static_cast<off_t>(at), static_cast<off_t>(size)) == 0;
    if (good) made_(at + size);
    lock.lock();
    if (!good) return;
  }
}

}  // namespace troupe
