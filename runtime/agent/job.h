// A job on this node: its zygote, or, where the program cannot be forked, the launcher that executes it; and
// its log.
//
// Owner: AgentState. Thread: the control thread. Workers are owned by AgentState and started here, a bounded
// number at a time. Errors reach the workers that wait, through could_not_start.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/control/executor.h"
#include "runtime/agent/line_limit.h"
#include "runtime/agent/log_file.h"
#include "runtime/agent/starter.h"
#include "runtime/agent/worker_process.h"

namespace troupe {

struct JobDescription {
  std::uint64_t id = 0;
  std::string name, executable, directory;
  std::uint64_t fingerprint = 0;
  std::vector<std::string> arguments, environment;
};

class Job {
 public:
  struct Hooks {
    std::function<WorkerStart(const WorkerProcess&)> parameters;
    std::function<wire::WorkerHost::Client(const WorkerProcess&)> host;
    std::function<void(Job&, std::string_view line)> output;  // of the zygote
    Starter::Factory start;
    kj::Duration patience = 30 * kj::SECONDS;  // until the zygote is ready
    std::string launcher;                      // program that executes workers
  };

  Job(Executor& loop, JobDescription description, std::string log, Hooks hooks);
  ~Job() noexcept(false) = default;

  const JobDescription& description() const { return description_; }
  LogFile& log_file() { return log_; }
  LineLimit& limit() { return limit_; }
  bool ended() const { return ended_; }

  void start(std::shared_ptr<WorkerProcess> worker);
  // Kills every process of the job; resolves when all are reaped.
  kj::Promise<void> end();

 private:
  static constexpr std::size_t kAtOnce = 64;
  enum class Launching { off, coming, ready };

  void pump();
  void start_launcher();
  void arm_patience();
  void launch(std::shared_ptr<WorkerProcess> worker);
  void launcher_gone(int wait_status);
  void fail_waiting(const Error& why);
  Error no_launcher(int wait_status) const;

  Executor& loop_;
  JobDescription description_;
  LogFile log_;
  Hooks hooks_;
  LineLimit limit_{200};
  bool executes_ = false;  // the program cannot be forked
  Launching launching_ = Launching::off;
  std::uint64_t attempt_ = 0;
  std::unique_ptr<Starter> launcher_;
  std::deque<std::string> last_errors_;
  std::deque<std::shared_ptr<WorkerProcess>> waiting_;
  std::unordered_map<std::uint64_t, std::shared_ptr<WorkerProcess>> launched_;  // by token = process id
  std::unordered_map<pid_t, std::shared_ptr<WorkerProcess>> running_;
  std::unordered_map<pid_t, std::shared_ptr<WorkerProcess>> orphans_;  // their parent is gone, they not yet
  bool ended_ = false;
  bool too_slow_ = false;
  bool switch_ = false;  // the zygote has said that it cannot fork
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> tell_gone_;
  kj::Maybe<kj::ForkedPromise<void>> end_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for tasks on the loop
};

}  // namespace troupe
