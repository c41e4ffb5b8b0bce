// What the head sends to one agent or one client: gathered for a turn, sent as few messages.
//
// Owner: HeadState. Thread: the control thread. Lifetime: until the node is lost, or the session is gone or
// replaced.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/protocol/cluster.capnp.h"
#include "gcs/control_store/actions.h"
#include "gcs/groups/group_table.h"
#include "gcs/head/silence.h"

namespace troupe::gcs {

class HeadState;

class NodePeer {
 public:
  NodePeer(HeadState& head, NodeId id, wire::Agent::Client agent);

  void start_job(const JobInfo& info);
  void place(Place place);
  void destroy(Destroy destroy);
  void end_job(JobId job);
  kj::Promise<void> shut_down(const std::string& reason);  // may be awaited after the peer's end
  void flush();                                            // sends what was gathered, in order
  wire::Agent::Client agent() { return agent_; }

  Silence silence;

 private:
  void send_places();
  void send_destroys();

  HeadState& head_;
  NodeId id_;
  wire::Agent::Client agent_;
  std::vector<Place> places_;
  std::size_t bytes_ = 0;
  std::vector<Destroy> destroys_;
  // Ends with the peer, and so do the answers that are still awaited.
  kj::TaskSet tasks_;
};

class ClientPeer {
 public:
  ClientPeer(HeadState& head, ProcessId process, std::uint64_t generation, wire::JobClient::Client client);

  std::uint64_t generation() const { return generation_; }
  void changed(ActorState state);
  void output(ProcessId process, std::string node, std::vector<std::string> lines, std::uint64_t dropped);
  void node_lost(NodeId node);
  void group_broken(const GroupBroken& broken);
  void flush();

 private:
  struct Output {
    ProcessId process;
    std::string node;
    std::vector<std::string> lines;
    std::uint64_t dropped;
  };

  HeadState& head_;
  ProcessId process_;
  std::uint64_t generation_;
  wire::JobClient::Client client_;
  std::vector<ActorState> states_;
  std::unordered_map<ActorId, std::size_t> newest_;  // index in states_
  std::deque<Output> output_;
  std::size_t lines_ = 0;
  bool changing_ = false;  // one call at a time; what comes meanwhile is merged
  bool printing_ = false;
  kj::TaskSet tasks_;
};

}  // namespace troupe::gcs
