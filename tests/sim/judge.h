// What must hold at every step. Three kinds of facts meet here: what heads believe, what lies on the disk,
// and what really runs (workers and the resources they hold).
//
// Owner: the simulation. Thread: one. The first violation is kept; the run ends with it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/base/ids.h"
#include "core/base/resources.h"
#include "gcs/control_store/control_store.h"
#include "gcs/store/store.h"

namespace troupe::sim {

class Disk;

// One actor's incarnation that really runs.
struct Hosted {
  ActorId actor;
  std::uint32_t incarnation = 0;
  NodeId node;              // the number its agent has from the head
  std::uint64_t agent = 0;  // the agent's process: one that is started again is another
  Resources resources;
  std::vector<std::uint16_t> gpus;
  bool alive = false;  // reported
};

class Judge {
 public:
  explicit Judge(Disk& disk);

  void violation(const std::string& what);
  const std::optional<std::string>& verdict() const { return verdict_; }

  // Reality. An agent brings its resources; a key names one hosting.
  void agent_starts(std::uint64_t agent, const Resources& total);
  void agent_gone(std::uint64_t agent);
  void hosting(std::uint64_t key, const Hosted& hosted);  // its resources: as the disk has them
  void reported_alive(std::uint64_t key);
  void hosting_over(std::uint64_t key);
  const std::map<std::uint64_t, Hosted>& hosted() const { return hosted_; }
  bool known_dead(ActorId actor) const;  // by the disk

  // What the head has acknowledged or told.
  void spawn_acknowledged(ActorId actor);
  void kill_acknowledged(ActorId actor);  // without restart
  void job_acknowledged(JobId job);
  void node_acknowledged(NodeId node);
  // To one listener, over one connection after the other: what it hears keeps its order.
  void told(const std::string& listener, ActorId actor, gcs::Phase phase, std::uint32_t incarnation);

  // Called before a write takes effect.
  void written(const gcs::Write& write);
  // A head's tables, after a step that changed them.
  void check_tables(const gcs::ControlStore& core);
  // The tables of a head whose word counts against the facts, after a step that changed either.
  void check(const gcs::ControlStore& core);
  std::uint64_t facts() const { return facts_; }  // how many were told
  // At the end: everything the core says lies on the disk.
  void check_disk(const gcs::ControlStore& core);

 private:
  struct Stored {
    std::uint32_t incarnation = 0;
    bool dead = false;
    Resources resources;
  };
  struct Told {
    std::uint32_t incarnation = 0;
    bool dead = false;
  };
  void check_physical(std::uint64_t agent);

  Disk& disk_;
  std::optional<std::string> verdict_;
  std::uint64_t facts_ = 0;
  std::map<std::uint64_t, Resources> agents_;
  std::map<std::uint64_t, Hosted> hosted_;
  std::map<ActorId, Stored> stored_;  // every actor that ever lay on the disk
  std::map<std::string, ActorId> names_;
  std::set<std::uint64_t> jobs_ever_, nodes_ever_;
  std::set<ActorId> must_be_known_, must_be_dead_;
  std::map<std::pair<std::string, ActorId>, Told> told_;
};

}  // namespace troupe::sim
