// The node agent's working state: jobs, workers, where actors are, and what the head is to be told.
//
// Owner: NodeAgent; servants look at it through weak pointers. Thread: the control thread. All commands are
// idempotent and may come in any order the head's own order allows.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/agent/event_queue.h"
#include "runtime/agent/job.h"
#include "runtime/agent/node_agent.h"
#include "runtime/agent/worker_process.h"

namespace troupe {

class AgentState : public std::enable_shared_from_this<AgentState> {
 public:
  AgentState(Executor& loop, NodeAgent::Options options);
  ~AgentState() noexcept(false);

  // Makes the folders. Before anything else.
  Result<void> prepare();
  void joined(wire::Membership::Client membership);
  void named(std::uint64_t node, std::string name);
  kj::Promise<void> when_named() { return named_.addBranch(); }

  void start_job(JobDescription job);
  void place(capnp::List<wire::Placement>::Reader placements);
  kj::Promise<void> destroy(capnp::List<wire::Incarnation>::Reader actors);
  kj::Promise<void> end_job(std::uint64_t job);
  kj::Promise<void> end_all(const std::string& reason);  // no new work from then on
  Result<std::string> logs(std::uint64_t job, std::uint64_t process, std::uint32_t lines);

  // A worker's own requests.
  wire::Session::Client register_worker(std::uint64_t process, wire::Worker::Client worker,
                                        wire::JobClient::Client client, std::uint64_t fingerprint,
                                        std::uint64_t& job);
  void worker_report(std::uint64_t process, capnp::List<wire::NodeEvent>::Reader events);

  void tell_of_dropped_lines();
  const NodeAgent::Options& options() const { return options_; }
  std::uint64_t node() const { return node_; }
  const std::string& name() const { return name_; }

 private:
  struct ActorPlace {
    std::uint32_t incarnation;
    std::uint64_t process;
  };
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
  bool flush_posted_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<Job>> jobs_;
  std::unordered_map<std::uint64_t, std::shared_ptr<WorkerProcess>> workers_;
  std::unordered_map<std::uint64_t, ActorPlace> actors_;
  std::deque<std::string> old_logs_;
  EventQueue events_;
  kj::Maybe<wire::Membership::Client> membership_;
  kj::Own<kj::PromiseFulfiller<void>> tell_named_;
  kj::ForkedPromise<void> named_;
};

}  // namespace troupe
