// The process's part in a cluster: a driver (the user's main) or a worker (the same executable, started by an
// agent). It owns the control thread, which talks to the head, and the lanes, which run actors and calls.
//
// Owner: troupe::Runtime. There is at most one in a process; get() is valid between its start and its end.
// All members may be called by any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/resources.h"
#include "runtime/call/call_state.h"
#include "runtime/call/directory.h"
#include "runtime/durable/durability.h"
#include "runtime/group/rank.h"
#include "runtime/lane/lane.h"
#include "runtime/process/actor_failure.h"

namespace troupe {

class Token;
struct WorkerStart;

struct SpawnRequest {
  ActorId actor;  // chosen by spawn()
  std::string class_name;
  std::vector<std::byte> args;
  std::string name;
  bool detached = false, get_or_create = false, light = false;
  Resources resources;
  std::string node;
  int max_restarts = 0;
  std::optional<Durability> durability;
  std::int64_t restart_window = 0;  // milliseconds, 0: the actor's life
  ActorId owner;
  FailureHandler on_failure;
};

struct NodeSummary {
  NodeId id;
  std::string name, host_id;
  bool alive = false, lost = false;  // neither: it may come back after a restart of the head
  int pid = 0;                       // of its agent, on its host
  Resources total, free;
};

// What the answer to a question is stored in; runs on the control thread.
template <class T>
using Answer = std::function<void(Result<T>)>;

struct ProcessOptions {
  std::chrono::microseconds poll = PollingPolicy::kDefaultBudget;
};

class Process {
 public:
  // The one of this process; an Error of kind invalid_argument is thrown when there is none.
  static Process& get();
  static bool running();

  // Connects to the cluster (its address and token as core/config finds them) and opens a job.
  static Result<std::unique_ptr<Process>> start_driver(const std::string& head, const std::string& program,
                                                       const std::vector<std::string>& arguments,
                                                       const ProcessOptions& options);
  // Serves the agent until it ends this process; never returns.
  [[noreturn]] static void run_worker(const WorkerStart& start, const ProcessOptions& options);

  ~Process();
  Process(const Process&) = delete;

  JobId job() const;
  NodeId node() const;  // 0 in a driver
  const std::string& node_name() const;
  const std::string& tcp_host() const;  // where a worker is reached from other machines
  const Token& token() const;           // of the cluster
  Lane& default_lane();                 // of the calling thread: its own, or the first

  // Numbers the actor and asks for it in the background; failures show in its calls.
  ActorId spawn(SpawnRequest request);
  // The same, answered when the record is durable: names that are taken, get-or-create.
  void spawn_named(SpawnRequest request, Answer<ActorId> answer);
  // invalid_argument when the actor of that name is of another class.
  void find(const std::string& name, const std::string& class_name, Answer<ActorId> answer);
  void kill(ActorId actor, bool no_restart, Answer<bool> answer);
  void nodes(Answer<std::vector<NodeSummary>> answer);
  // For the actors of that owner (0: the driver) that have no handler of their own; an empty one takes it
  // back.
  void on_failure(ActorId owner, FailureHandler handler);
  // Of groups of actors (group_client.h); answers and news come on the control thread.
  std::uint64_t new_group();
  void join_group(GroupJoinRequest request, GroupJoined joined, GroupBroken broken);
  void post_to_group(GroupPostRequest request, GroupPosted posted);
  void leave_group(std::uint64_t group, ActorId actor, std::uint32_t incarnation);

  Lane* lane_at(std::uint16_t index);  // null when there is none

 private:
  class Impl;
  explicit Process(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
