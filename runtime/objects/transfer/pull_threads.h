// Threads that block on one socket each: at most kMost at once.
//
// Owner: Transfer. Thread: the control thread; the work runs on the threads, its result comes back here.
// stop() ends the work's calls on the socket; dropping this stops and waits for all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "core/control/executor.h"
#include "core/os/fd.h"

namespace troupe {

class PullThreads {
 public:
  static constexpr std::size_t kMost = 32;
  using Work = std::function<Result<void>(int socket)>;
  using Done = std::function<void(Result<void>)>;

  explicit PullThreads(Executor& loop) : loop_(loop) {}
  ~PullThreads();

  bool full() const { return jobs_.size() >= kMost; }
  // 0: there cannot be one more; the socket is closed then.
  std::uint64_t start(UniqueFd socket, Work work, Done done);
  void stop(std::uint64_t job);

 private:
  struct Job {
    UniqueFd socket;
    Done done;
    std::thread thread;
  };
  void ended(std::uint64_t number, Result<void> result);

  Executor& loop_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Job> jobs_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace troupe
