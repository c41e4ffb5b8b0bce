// The agent's end of a zygote (runtime/worker/zygote.h): starts it, asks it for workers, hears of their ends.
//
// Owner: Job. Thread: the control thread. Callbacks come from Asio, never from inside a call of this class,
// and none after it was dropped. Dropping it ends the zygote and all its workers, without waiting for them.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>

#include "core/os/fd.h"
#include "core/os/process.h"
#include "runtime/worker/worker_start.h"

namespace troupe {

class Launcher {
 public:
  struct Callbacks {
    std::function<void()> ready;
    std::function<void(int threads)> cannot_fork;  // then gone
    std::function<void(std::uint64_t token, pid_t pid)> started;
    std::function<void(std::uint64_t token, Error why)> failed;
    std::function<void(pid_t pid, int wait_status)> ended;  // reaped, and the rest of its group killed
    std::function<void(int wait_status)> gone;              // the zygote itself; last
  };

  // `options` lacks the zygote's variables and socket, which are added.
  static Result<std::unique_ptr<Launcher>> start(asio::io_context& io, SpawnOptions options,
                                                 Callbacks callbacks);
  ~Launcher();
  Launcher(const Launcher&) = delete;

  // The descriptors are the worker's channel, standard output and standard error.
  void launch(std::uint64_t token, const WorkerStart& start, UniqueFd channel, UniqueFd out, UniqueFd err);
  void kill(pid_t worker);  // with its group
  void end();               // kills and reaps all; then gone comes
  void kill_zygote();       // when end() took too long
  pid_t pid() const;

 private:
  struct State;
  explicit Launcher(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace troupe
