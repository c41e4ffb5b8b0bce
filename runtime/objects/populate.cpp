#include "runtime/objects/populate.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/log.h"
#include "runtime/agent/memory_use.h"

namespace troupe {
namespace {

constexpr std::uint64_t kStep = 4 << 20;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

// A step for each byte that comes. It is a copy of a process with threads: nothing but system calls, past
// whatever the C library would keep account of.
[[noreturn]] void populate(int arena, int talk, std::uint64_t bytes) {
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::syscall(SYS_prctl, PR_SET_NAME, "troupe-populate", 0, 0, 0);
  // Nothing else is kept open by it; somebody may wait for the end of what it has a copy of.
  ::syscall(SYS_dup3, arena, 0, 0);
  ::syscall(SYS_dup3, talk, 1, 0);
  ::syscall(SYS_close_range, 2U, ~0U, 0);
  ::syscall(SYS_setpriority, PRIO_PROCESS, 0, 19);
  char byte = 0;
  for (std::uint64_t at = 0; at < bytes && ::syscall(SYS_read, 1, &byte, 1) == 1; at += kStep) {
    std::uint64_t size = std::min(kStep, bytes - at);
    long window = ::syscall(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, 0, at);
    if (window == -1) break;
    if (::syscall(SYS_madvise, window, size, MADV_POPULATE_WRITE) != 0) break;
    ::syscall(SYS_munmap, window, size);
    if (::syscall(SYS_write, 1, &byte, 1) != 1) break;
  }
  for (;;) ::syscall(SYS_exit_group, 0);
}

template <class F>
auto again(F call) {
  for (;;) {
    auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Above the standard ones, also where those are closed.
UniqueFd above_standard(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

}  // namespace

Populate::Populate(int arena, std::uint64_t bytes, std::chrono::milliseconds after,
                   std::function<void(std::uint64_t)> made, std::function<bool()> enough)
    : made_(std::move(made)),
      enough_(std::move(enough)),
      thread_([this, arena, bytes, after] { run(arena, bytes, after); }) {}

bool Populate::quarter_is_free() {
  auto memory = machine_memory();
  return memory.available >= memory.total / 4;
}

Populate::~Populate() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (child_) ::syscall(SYS_pidfd_send_signal, child_.get(), SIGKILL, nullptr, 0);
  }
  told_.notify_one();
  thread_.join();
}

bool Populate::start(int arena, int talk, std::uint64_t bytes) {
  UniqueFd memory = above_standard(arena), line = above_standard(talk);
  if (!memory || !line) return false;
  // Handlers of this process are not for the child, which is killed when it is to end.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  long pid = ::syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr);
  if (pid == 0) populate(memory.get(), line.get(), bytes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return false;
  child_ = UniqueFd(pidfd);
  return true;
}

void Populate::run(int arena, std::uint64_t bytes, std::chrono::milliseconds after) {
  int ends[2];
  UniqueFd mine, theirs;
  {
    std::unique_lock lock(mutex_);
    if (told_.wait_for(lock, after, [this] { return stopping_; })) return;
    bool started = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
    if (started) {
      mine = UniqueFd(ends[0]);
      theirs = UniqueFd(ends[1]);
      started = start(arena, theirs.get(), bytes);
    }
    if (!started) {
      log(Level::warning, system_error(errno, "cannot start what makes object memory ready").message);
      return;
    }
  }
  theirs.reset();
  char byte = 0;
  std::uint64_t ready = 0;
  while (ready < bytes && enough_()) {
    if (again([&] { return ::send(mine.get(), &byte, 1, MSG_NOSIGNAL); }) != 1) break;
    if (again([&] { return ::recv(mine.get(), &byte, 1, 0); }) != 1) break;
    ready = std::min(ready + kStep, bytes);
    made_(ready);
  }
  std::lock_guard lock(mutex_);
  if (ready == 0 && bytes > 0 && !stopping_)
    log(Level::info, "object memory is not made ready ahead: the kernel cannot, or memory is short");
  ::syscall(SYS_pidfd_send_signal, child_.get(), SIGKILL, nullptr, 0);
  siginfo_t info;
  again([&] {
    return ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child_.get()), &info, WEXITED);
  });
  child_.reset();
}

}  // namespace troupe
