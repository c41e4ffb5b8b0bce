// The head's own redis-server: a child on a private Unix socket that dies with the head. It holds a lock on
// its directory for as long as it lives, so that the server of the next head does not begin while this one
// still writes.
//
// Owner: the head command. Thread: one that lives as long as the head, since the server is told to end when
// the thread that started it does; start() and stop() block, so start it before the loop runs. Lifetime: the
// destructor stops the server. Errors: a missing binary or a refusal to start say what to do.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "core/os/fd.h"
#include "gcs/store/redis_url.h"

namespace troupe::gcs {

class RedisProcess {
 public:
  struct Options {
    std::string directory;                // state directory, made private (0700) if it is missing
    std::string binary = "redis-server";  // looked for in PATH
    std::chrono::milliseconds patience{15'000};
  };

  // Returns when the server answers.
  static Result<std::unique_ptr<RedisProcess>> start(Options options);
  ~RedisProcess();
  RedisProcess(const RedisProcess&) = delete;

  const RedisAddress& address() const { return address_; }
  pid_t pid() const { return pid_; }
  bool running();  // reaps it if it has ended
  // Starts it again after it has ended, under the same address and password. Does not wait until it answers.
  Result<void> relaunch();
  void stop();  // asks, waits, then kills; everything acknowledged is on disk either way
  void kill();  // at once, for tests

 private:
  RedisProcess() = default;
  Result<void> lock_directory();
  Result<void> launch();
  Result<void> wait_until_it_answers();
  void end(int signal, std::chrono::milliseconds patience);

  Options options_;
  RedisAddress address_;
  UniqueFd lock_;  // shared with the server
  pid_t pid_ = 0;
};

}  // namespace troupe::gcs
