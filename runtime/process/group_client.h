// Groups as this process sees them through its session: joining a generation, hearing of lost ranks. After
// the head was away it is told what had formed, so that it goes on watching.
//
// Owner: ControlPlane. Thread: the control thread; answers and news come there. A join ends with its answer:
// formed, who is missing, who died, or unavailable when no head comes back in time.
#pragma once

#include <map>

#include "runtime/group/rank.h"
#include "runtime/process/head_session.h"

namespace troupe {

class GroupClient {
 public:
  explicit GroupClient(HeadSession& session) : session_(session) {}

  // `broken` is kept until the rank leaves, or joins again with another.
  void join(GroupJoinRequest request, GroupJoined joined, GroupBroken broken);
  // Shows something to the other ranks of a generation.
  void post(GroupPostRequest request, GroupPosted posted);
  void leave(std::uint64_t group, ActorId actor, std::uint32_t incarnation);

  // From the head, and when there is a new session with one.
  void broken(std::uint64_t group, std::uint64_t generation, std::uint32_t rank, const Error& why);
  void resume();

 private:
  struct Membership {
    GroupJoinRequest request;
    GroupFormed formed;  // generation 0: not yet, or broken
    GroupBroken broken;
  };
  using Key = std::pair<std::uint64_t, ActorId>;

  HeadSession& session_;
  std::map<Key, Membership> memberships_;
};

}  // namespace troupe
