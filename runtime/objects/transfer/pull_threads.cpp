#include "runtime/objects/transfer/pull_threads.h"

#include <signal.h>
#include <sys/socket.h>

#include <system_error>

namespace troupe {

PullThreads::~PullThreads() {
  alive_ = nullptr;
  for (auto& [number, job] : jobs_) stop(number);
  for (auto& [number, job] : jobs_) job.thread.join();
}

std::uint64_t PullThreads::start(UniqueFd socket, Work work, Done done) {
  if (full()) return 0;
  std::uint64_t number = ++last_;
  Job& job = jobs_[number];
  job.socket = std::move(socket);
  job.done = std::move(done);
  std::weak_ptr<int> alive = alive_;
  // Signals are for other threads; and sendfile has no other way to fail without SIGPIPE.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    job.thread =
        std::thread([this, alive, number, fd = job.socket.get(), work = std::move(work), &loop = loop_] {
          auto result = std::make_shared<Result<void>>(work(fd));
          loop.post([this, alive, number, result] {
            if (!alive.expired()) ended(number, std::move(*result));
          });
        });
  } catch (const std::system_error&) {
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) return number;
  jobs_.erase(number);
  return 0;
}

// The descriptor stays open until the thread has ended, so it cannot be another one's.
void PullThreads::stop(std::uint64_t number) {
  auto at = jobs_.find(number);
  if (at != jobs_.end()) ::shutdown(at->second.socket.get(), SHUT_RDWR);
}

void PullThreads::ended(std::uint64_t number, Result<void> result) {
  auto at = jobs_.find(number);
  if (at == jobs_.end()) return;
  at->second.thread.join();
  Done done = std::move(at->second.done);
  jobs_.erase(at);
  done(std::move(result));
}

}  // namespace troupe
