// One worker of a job on this node, from the wish for it until nothing of it is left.
//
// waiting → launched → running → registered, and from each to ended. `ended` comes when the process was
// reaped with its group and its channel and output were read to their ends, or when it could not be started.
//
// Owner: AgentState, shared with tasks on the loop. Thread: the control thread.
#pragma once

#include <capnp/message.h>
#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/agent/line_limit.h"
#include "runtime/agent/starter.h"

namespace troupe {

class WorkerProcess : public std::enable_shared_from_this<WorkerProcess> {
 public:
  enum class Phase { waiting, launched, running, registered, ended };
  struct Placed {
    std::uint64_t actor;
    std::uint32_t incarnation;
  };
  using OnLine = std::function<void(WorkerProcess&, std::string_view)>;
  using OnEnd = std::function<void(WorkerProcess&, const Error&)>;

  WorkerProcess(Executor& loop, std::uint64_t process, std::uint64_t job, bool light, std::string label,
                OnLine line, OnEnd end);
  ~WorkerProcess() noexcept(false) = default;

  const std::uint64_t process, job;
  const bool light;
  const std::string label;  // for people and the log: "12 Trainer"
  std::vector<unsigned> gpus;
  std::int64_t gpu_units = 0;  // its share of each
  LineLimit limit{200};
  bool wanted = false;  // its start was asked for: once, though all its actors may leave before it comes
  struct Hosted {
    std::uint32_t incarnation = 0;
    std::uint64_t memory = 0;  // bytes it asked for
  };
  std::unordered_map<std::uint64_t, Hosted> actors;
  std::function<void(pid_t)> kill_group;                  // set by the job
  kj::Maybe<wire::JobClient::Client> client;              // once registered: what its session is opened with
  std::unique_ptr<capnp::MallocMessageBuilder> endpoint;  // a wire::Endpoint, once an actor of it is alive

  Phase phase() const { return phase_; }
  pid_t pid() const { return pid_; }
  bool over() const { return phase_ == Phase::ended; }
  bool dying() const { return ending_.has_value() || exited_; }

  void launched(Starter::Ends ends, wire::WorkerHost::Client host);
  void started(pid_t pid);
  void registered(wire::Worker::Client worker);
  void new_session(wire::Session::Client session);
  void keep(wire::Endpoint::Reader where);  // the first one: they differ in the lane only

  // Sends the placement on, now or when the worker has registered.
  void place(const std::vector<wire::Placement::Reader>& placements);
  kj::Promise<void> destroy(const std::vector<Placed>& actors);

  // Ends it; `why` is what callers hear instead of how it ended.
  void kill(Error why);
  void could_not_start(Error why);
  void exited(int wait_status);  // reaped
  kj::Promise<void> when_over() { return over_.addBranch(); }

 private:
  void line(std::string_view text, bool is_error);
  void send_places();
  void channel_ended();
  void stream_ended();
  void finish();
  Error how_it_ended() const;

  Executor& loop_;
  OnLine on_line_;
  OnEnd on_end_;
  Phase phase_ = Phase::waiting;
  pid_t pid_ = 0;
  kj::Maybe<kj::Own<RpcConnection>> channel_;
  kj::Maybe<wire::Worker::Client> worker_;
  std::unique_ptr<Lines> out_, err_;
  int open_streams_ = 0;                                              // channel, out, err
  std::vector<std::unique_ptr<capnp::MallocMessageBuilder>> unsent_;  // placements
  std::deque<std::string> last_errors_;
  std::optional<Error> ending_;
  bool exited_ = false;
  int wait_status_ = 0;
  kj::Own<kj::PromiseFulfiller<void>> tell_over_;
  kj::ForkedPromise<void> over_;
};

}  // namespace troupe
