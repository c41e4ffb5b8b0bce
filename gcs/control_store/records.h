// The tables of the control store. Plain data; ControlStore keeps the links between them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gcs/control_store/types.h"

namespace troupe::gcs {

struct ActorRecord;

// Intrusive list, newest first: an actor is in up to three of them and may leave each in constant time.
struct Hook {
  ActorRecord* prev = nullptr;
  ActorRecord* next = nullptr;
  bool linked = false;
};

template <Hook ActorRecord::*H>
class Chain {
 public:
  ActorRecord* first() const { return first_; }
  bool empty() const { return first_ == nullptr; }
  void add(ActorRecord& record) {
    Hook& hook = record.*H;
    if (hook.linked) return;
    hook = {nullptr, first_, true};
    if (first_ != nullptr) (first_->*H).prev = &record;
    first_ = &record;
  }
  void remove(ActorRecord& record) {
    Hook& hook = record.*H;
    if (!hook.linked) return;
    (hook.prev != nullptr ? (hook.prev->*H).next : first_) = hook.next;
    if (hook.next != nullptr) (hook.next->*H).prev = hook.prev;
    hook = {};
  }
  template <class F>
  void each(F&& f) const {  // `f` may remove the record it is given
    for (ActorRecord* at = first_; at != nullptr;) {
      ActorRecord* next = (at->*H).next;
      f(*at);
      at = next;
    }
  }

 private:
  ActorRecord* first_ = nullptr;
};

struct ActorRecord {
  SpecPtr spec;
  JobId job;
  // The lease: what the current incarnation holds. It outlives the incarnation until the node says that it is
  // gone.
  NodeId node;  // none: no lease
  ProcessId process;
  std::vector<std::uint16_t> gpus;
  std::shared_ptr<const Endpoint> endpoint;
  Cause failure;
  Turn written = 0;  // turn of the last write
  Time alive_since = 0;
  Time wake_at = 0;  // end of the back-off, 0: none
  NodeId suspect;    // where it died last
  std::uint32_t incarnation = 0;
  std::uint32_t restarts = 0;
  std::uint32_t strikes = 0;  // failures in short succession
  std::vector<Time> recent;   // restarts within the window, if there is one; at most max_restarts
  std::uint16_t suspect_deaths = 0;
  Phase phase = Phase::pending;
  bool infeasible = false;
  bool ending = false;  // Destroy or EndJob is under way

  Hook in_job;      // until buried and without lease
  Hook in_process;  // while it has a lease
  Hook in_owner;    // while it lives and is not detached
  Chain<&ActorRecord::in_owner> children;
};

struct ProcessRecord {
  JobId job;
  NodeId node;  // none: a driver
  bool light = false;
  bool ending = false;                                     // EndJob is under way, takes no new actors
  bool over = false;                                       // being taken out of the tables
  std::vector<std::shared_ptr<const Endpoint>> endpoints;  // one for each lane that was reported
  Chain<&ActorRecord::in_process> hosted;
  Chain<&ActorRecord::in_owner> owned;  // spawned by it without an owning actor
};

enum class NodePhase : std::uint8_t {
  alive,
  awaited,
  dead
};  // awaited: known from before the head's restart

struct NodeRecord {
  NodeInfo info;
  NodePhase phase = NodePhase::alive;
  bool draining = false;
  Time joined = 0;
  Time deadline = 0;  // awaited: lost then
  std::string reason;
  std::set<ProcessId> processes;
  std::set<JobId> jobs;  // with an entry in JobRecord::nodes
};

struct JobRecord {
  struct OnNode {
    bool started = false;
    ProcessId light;  // the worker of its light actors
    std::uint32_t leases = 0;
  };
  JobInfo info;
  ProcessId driver;
  bool ended = false;
  bool awaited = false;
  Time started_at = 0;
  Time ended_at = 0;
  Time deadline = 0;
  std::string reason;
  std::map<NodeId, OnNode> nodes;
  Chain<&ActorRecord::in_job> actors;
  std::uint32_t live = 0;  // actors that are not dead
};

// What the store gives back at the start.
struct StoredNode {
  NodeId id;
  NodeInfo info;
  bool alive = false;
  Time joined = 0;
  std::string reason;
};
struct StoredJob {
  JobInfo info;
  ProcessId driver;
  bool ended = false;
  Time started_at = 0;
  Time ended_at = 0;
  std::string reason;
};
struct StoredActor {
  SpecPtr spec;
  JobId job;
  std::uint32_t incarnation = 0;
  Phase phase = Phase::pending;
  NodeId node;
  ProcessId process;
  std::vector<std::uint16_t> gpus;
  std::uint32_t restarts = 0;
  Cause failure;
};
struct Snapshot {
  std::vector<StoredNode> nodes;
  std::vector<StoredJob> jobs;
  std::vector<StoredActor> actors;
  std::uint64_t counters[kCounters] = {};  // first number that was never given out
  std::uint64_t margin = 0;                // numbers to skip, when a counter was unreadable
};

}  // namespace troupe::gcs
