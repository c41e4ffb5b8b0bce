// What must hold of calls. Callers tell what they make and how it ended, actors what they run, processes what
// the head has told them.
//
// Owner: the simulation. Thread: one. A caller whose process has died asks for nothing any more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace troupe::sim {

class Judge;

class CallJudge {
 public:
  explicit CallJudge(Judge& judge) : judge_(judge) {}

  struct Made {
    std::uint64_t program = 0;  // the caller's process
    int lane = 0;
    ActorId target;
    bool one_way = false;
    bool by_actor = false;
    int retries = 0;
    std::int64_t deadline = 0;  // microseconds, 0: none
    bool sure = false;          // made in calm, to be answered by what it is called for
  };
  std::uint64_t made(const Made& call);  // its number
  void cancelled(std::uint64_t call);    // its caller asks for its end
  // The caller's lane takes the value of that run.
  void taken(std::uint64_t call, std::uint64_t run);
  // With a value, which names the call and the run that answered it, or with an error.
  void answered(std::uint64_t call, std::uint64_t named, std::uint64_t run, std::int64_t now);
  void failed(std::uint64_t call, const Error& error, std::int64_t now);
  void caller_died(std::uint64_t program);

  struct Run {
    std::uint64_t call = 0;
    ActorId actor;
    std::uint32_t incarnation = 0;
    std::uint64_t object = 0;  // the actor's object: an incarnation in one process
    std::uint64_t link = 0;    // it came over; 0: within the process
    bool alone = true;         // the class runs one call at a time
  };
  std::uint64_t begins(const Run& run);  // the run's number
  void ends(std::uint64_t run);

  // That lane has been told what its process was told by the head: what the incarnations up to this one say
  // must not be listened to.
  struct Listener {
    std::uint64_t program;
    int lane;
    auto operator<=>(const Listener&) const = default;
  };
  void fenced(Listener who, ActorId actor, std::uint32_t incarnation);
  void fenced(Listener who, NodeId node);
  void hosted(ActorId actor, std::uint32_t incarnation, NodeId node);

  // An actor of that process's code is dead for good and was not told to end: somebody there must hear of it.
  void failure_told(std::uint64_t program, ActorId actor, std::int64_t now);
  void disowned(ActorId actor);                              // its failure concerns nobody
  void failure_heard(std::uint64_t program, ActorId actor);  // by a handler or a caller
  void failure_ends(std::uint64_t program);                  // the program ends for it
  void check_failures(std::int64_t now);

  std::size_t outstanding() const { return outstanding_.size(); }
  std::size_t outstanding_if(const std::function<bool(ActorId target)>& counts) const;
  std::string describe_outstanding() const;
  void nothing_more_is_sure() { sure_over_ = true; }  // the jobs are being ended
  const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

 private:
  struct Call : Made {
    bool ended = false, asked_to_end = false, was_dead = false;
    std::uint64_t number = 0, sequence = 0;
    int runs = 0, running = 0;
  };
  Call* end(std::uint64_t call, const char* how);
  void violation(const Call& call, const std::string& what);
  bool listens(const Call& call, const Run& run) const;

  Judge& judge_;
  std::unordered_map<std::uint64_t, Call> calls_;
  std::set<std::uint64_t> outstanding_;
  std::unordered_map<std::uint64_t, Run> runs_;
  std::uint64_t last_call_ = 0, last_run_ = 0;
  using Handle = std::tuple<std::uint64_t, int, ActorId>;  // process, lane, actor
  std::map<Handle, std::uint64_t> sequences_;
  std::map<std::pair<Handle, std::uint64_t>, std::uint64_t>
      first_runs_;  // by object: the last one's sequence
  std::map<std::tuple<Handle, std::uint64_t, std::uint64_t>, std::uint64_t> link_runs_;
  std::map<std::uint64_t, int> busy_;  // objects
  std::map<std::pair<Listener, ActorId>, std::uint32_t> fenced_;
  std::set<std::pair<Listener, NodeId>> lost_;
  std::map<std::pair<ActorId, std::uint32_t>, NodeId> nodes_;
  std::map<std::pair<std::uint64_t, ActorId>, std::int64_t> failures_;  // since when
  std::set<std::pair<std::uint64_t, ActorId>> heard_;                   // before the head told
  std::map<std::string, std::uint64_t> counts_;
  std::set<ActorId> disowned_;
  bool sure_over_ = false;
};

}  // namespace troupe::sim
