// Starts the workers of one job on this node. The product's is a zygote (zygote_starter.h); the simulator's
// makes workers in its own process.
//
// Owner: Job. Thread: the control thread. Callbacks never come from inside a call of this class, and none
// after it was dropped. Dropping it ends all its workers, without waiting for them.
#pragma once

#include <kj/async-io.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/os/process.h"
#include "runtime/worker/worker_start.h"

namespace troupe {

// Lines that a process writes. Nothing is read before start(); dropping it ends the callbacks.
class Lines {
 public:
  using Line = std::function<void(std::string_view)>;
  using End = std::function<void()>;

  virtual ~Lines() = default;
  virtual void start(Line on_line, End on_end) = 0;
  virtual void drain() = 0;  // takes what is there without waiting, and the unfinished last line too
};

class Starter {
 public:
  struct Callbacks {
    std::function<void()> ready;
    std::function<void(int threads)> cannot_fork;  // then gone
    std::function<void(std::uint64_t token, pid_t pid)> started;
    std::function<void(std::uint64_t token, Error why)> failed;
    std::function<void(pid_t pid, int wait_status)> ended;  // reaped, and the rest of its group killed
    std::function<void(int wait_status)> gone;              // the workers' parent itself; last
    std::function<void(std::string_view text, bool is_error)> line;  // what the parent writes
  };
  // The agent's ends of what a worker holds.
  struct Ends {
    kj::Own<kj::AsyncIoStream> channel;
    std::unique_ptr<Lines> out, err;
  };
  // `program` lacks what a zygote needs besides: variables, descriptors.
  using Factory = std::function<Result<std::unique_ptr<Starter>>(SpawnOptions program, Callbacks callbacks)>;

  virtual ~Starter() noexcept(false) = default;

  virtual Result<Ends> launch(std::uint64_t token, const WorkerStart& start) = 0;
  virtual void kill(pid_t worker) = 0;  // with its group
  virtual void end() = 0;               // kills and reaps all; then gone comes
  virtual void kill_parent() = 0;       // when end() took too long
  virtual void drain() = 0;             // the parent's last lines
  // After gone: ends what is left of it; its wait status, once it is no more. That may take its time, in a
  // driver or a file system that hangs.
  virtual kj::Promise<int> kill_orphan(pid_t worker) = 0;
};

}  // namespace troupe
