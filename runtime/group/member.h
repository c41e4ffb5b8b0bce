// GroupMember: what an actor is in a group. Joins generation after generation and holds the communicator of
// the present one; when the head tells that a rank is lost, that communicator is aborted.
//
//   GroupMember::of(description, actor, incarnation)->join(false, done) … communicator() … join(true, done)
//
// Owner: the Group values of the actor, together; the last one to go leaves the group. Any thread. Nothing
// here waits: joining ends on a thread of the communicator or of the control plane.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/group/communicator.h"
#include "runtime/group/rank.h"

namespace troupe {

// How a group was made; travels in messages.
struct GroupDescription {
  std::uint64_t id = 0;
  std::vector<std::uint64_t> members;  // ActorIds
  bool keep_order = false;
  bool gpu = false;                    // over NCCL, with tensors of the actor's GPU
  std::uint32_t patience_ms = 30'000;  // of join and reform
  std::uint32_t limit_ms = 300'000;    // of operations
  bool operator==(const GroupDescription&) const = default;
};

// What an actor is in a part of a group. Its end does not wait for the communicator's.
struct SubGroupMember {
  std::shared_ptr<Communicator> communicator;
  std::vector<ActorId> ranks;
  ~SubGroupMember();
};

class GroupMember : public std::enable_shared_from_this<GroupMember> {
 public:
  using Done = std::function<void(Result<void>)>;

  // The one of this actor in this process.
  static std::shared_ptr<GroupMember> of(const GroupDescription& description, ActorId actor,
                                         std::uint32_t incarnation);
  GroupMember(GroupDescription description, ActorId actor, std::uint32_t incarnation);
  ~GroupMember();

  // `reform`: members that are dead may be missing. One join at a time; a second one is refused.
  void join(bool reform, Done done);
  // The present generation's, also when it is broken; null before the first has formed.
  std::shared_ptr<Communicator> communicator() const;
  std::uint64_t generation() const;
  std::vector<ActorId> ranks() const;  // the actors of the present generation, by rank
  const GroupDescription& description() const { return description_; }

 private:
  void formed(GroupFormed formed, const Done& done);
  void connected(std::uint64_t generation, const Result<void>& result, const Done& done);
  void broken(std::uint64_t generation, const Error& why);
  void finish_join();

  const GroupDescription description_;
  const ActorId actor_;
  const std::uint32_t incarnation_;
  mutable std::mutex mutex_;  // guards what follows
  bool joining_ = false;
  GroupFormed formed_;
  std::shared_ptr<Communicator> communicator_;
  std::uint64_t lost_generation_ = 0;  // the last one that is known to be broken, and why
  std::optional<Error> why_lost_;
};

}  // namespace troupe
