#include "runtime/objects/populate.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/agent/memory_use.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace troupe {
namespace {

constexpr std::uint64_t kStep = 16 << 20;

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
    // Mapped for the moment only, so that the pages are not counted as this process's.
    void* part = good ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena,
                               static_cast<off_t>(at))
                      : MAP_FAILED;
    good = part != MAP_FAILED;
    if (good) {
      ::madvise(part, size, MADV_HUGEPAGE);
      good = ::madvise(part, size, MADV_POPULATE_WRITE) == 0;
      ::munmap(part, size);
    }
    if (good) made_(at + size);
    lock.lock();
    if (!good) return;
  }
}

}  // namespace troupe
