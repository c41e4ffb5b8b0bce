// The node agent's working state: jobs, workers, where actors are, and what the head is to be told.
//
// Owner: NodeAgent; servants look at it through weak pointers. Thread: the control thread. All commands are
// idempotent and may come in any order the head's own order allows.
#pragma once

#include <kj/function.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/agent/event_queue.h"
#include "runtime/agent/job.h"
#include "runtime/agent/journal_keeper.h"
#include "runtime/agent/memory_monitor.h"
#include "runtime/agent/node_agent.h"
#include "runtime/agent/worker_process.h"

namespace troupe {

class AgentState : public std::enable_shared_from_this<AgentState> {
 public:
  AgentState(Executor& loop, NodeAgent::Options options);
  ~AgentState() noexcept(false);

  // Makes the folders. Before anything else.
  Result<void> prepare();
  // What the head orders waits for the node's number; what it is told waits for joined().
  void named(std::uint64_t node, std::string name);
  // How many heads were lost so far.
  std::uint64_t heads_lost() const { return heads_lost_; }
  // Runs a command of a head: now, or, in the order of their arrival, when the node is named; one that came
  // later must not overtake. It fails when that head is lost before, or was when so many had been lost: what
  // was still on its way must not be taken for the next head's.
  kj::Promise<void> in_order(std::uint64_t heads_lost, kj::Function<kj::Promise<void>()> command);
  void joined(wire::Membership::Client membership);
  // The head is away: workers go on, and what happens is kept for the next one.
  void head_lost();
  std::vector<std::uint64_t> job_ids() const;

  void start_job(JobDescription job);
  void place(capnp::List<wire::Placement>::Reader placements);
  kj::Promise<void> destroy(capnp::List<wire::Incarnation>::Reader actors);
  kj::Promise<void> end_job(std::uint64_t job);
  // Ends all workers and forgets them; the node may then get new ones.
  kj::Promise<void> end_workers(const std::string& reason);
  kj::Promise<void> end_all(const std::string& reason);  // no new work from then on
  Result<std::string> logs(std::uint64_t job, std::uint64_t process, std::uint32_t lines);

  // A worker's own requests.
  void register_worker(std::uint64_t process, wire::Worker::Client worker, wire::JobClient::Client client,
                       std::uint64_t fingerprint, std::uint64_t& job);
  void worker_report(std::uint64_t process, capnp::List<wire::NodeEvent>::Reader events);

  void tell_of_dropped_lines();
  const NodeAgent::Options& options() const { return options_; }
  const std::string& sockets() const { return sockets_; }  // a folder; once prepared
  std::uint64_t node() const { return node_; }
  const std::string& name() const { return name_; }

 private:
  struct ActorPlace {
    std::uint32_t incarnation;
    std::uint64_t process;
    std::optional<std::uint16_t> lane = {};  // once it is alive
  };
  // An incarnation that has ended here, until the head has written that down: it must not begin again when a
  // head that does not know yet orders it once more.
  struct Ended {
    std::uint64_t report, actor;
    std::uint32_t incarnation;
  };
  void remember_end(std::uint64_t actor, std::uint32_t incarnation);
  void recorded(std::uint64_t report);  // it and all before it
  void tell_alive(std::uint64_t actor, const ActorPlace& place);
  void open_session(WorkerProcess& worker);
  WorkerProcess& worker_for(wire::Placement::Reader placement, Job& job);
  WorkerStart parameters_of(const WorkerProcess& worker) const;
  void line(WorkerProcess& worker, std::string_view text);
  void zygote_line(Job& job, std::string_view text);
  void worker_ended(WorkerProcess& worker, const Error& how);
  void expect_registration(WorkerProcess& worker);
  void forget_logs_of_old_jobs();
  void flush_logs_later();

  Executor& loop_;
  NodeAgent::Options options_;
  std::string host_id_, sockets_, logs_;
  bool sockets_are_temporary_ = false;
  std::uint64_t node_ = 0;
  std::string name_;
  bool stopping_ = false;
  bool is_named_ = false;
  std::uint64_t heads_lost_ = 0;
  bool flush_posted_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<Job>> jobs_;
  std::unordered_map<std::uint64_t, std::shared_ptr<WorkerProcess>> workers_;
  std::unordered_map<std::uint64_t, ActorPlace> actors_;
  std::unordered_map<std::uint64_t, std::uint32_t> ended_;  // → incarnation
  std::unordered_map<std::uint64_t, std::uint64_t>
      ended_processes_;        // → report; commands may still name them
  std::deque<Ended> endings_;  // in the order of their reports
  std::deque<std::string> old_logs_;
  JournalKeeper journals_;
  EventQueue events_;
  MemoryMonitor memory_;
  kj::Maybe<wire::Membership::Client> membership_;
  struct Command {
    kj::Function<kj::Promise<void>()> run;
    kj::Own<kj::PromiseFulfiller<void>> done;
  };
  std::deque<Command> commands_;  // came before the node was named
};

}  // namespace troupe
