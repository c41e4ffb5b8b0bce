// Carries out what the table of groups (gcs/groups) decides: answers to joins, news of lost ranks.
//
// Owner: HeadState. Thread: the control thread. A join whose asker has gone is answered into the void; its
// rank leaves the table with its incarnation.
#pragma once

#include <kj/async.h>

#include <unordered_map>

#include "gcs/groups/group_table.h"

namespace troupe::gcs {

class HeadState;

class Groups {
 public:
  explicit Groups(HeadState& head) : head_(head) {}

  // Rejected with the Error.
  kj::Promise<kj::Own<GroupFormed>> join(GroupJoin join);
  kj::Promise<kj::Own<GroupPosts>> post(GroupPost post);
  void resume(GroupId group, std::vector<ActorId> members, GroupFormed formed);
  void leave(GroupId group, ActorId actor, std::uint32_t incarnation);
  void over(const IncarnationOver& over);

 private:
  template <class T>
  using Asks = std::unordered_map<RequestId, kj::Own<kj::PromiseFulfiller<kj::Own<T>>>>;
  template <class T>
  static bool answer(Asks<T>& asks, GroupReply& reply);
  void take(GroupActions actions);
  void arm();

  HeadState& head_;
  GroupTable table_;
  RequestId last_request_ = 0;
  Asks<GroupFormed> joins_;
  Asks<GroupPosts> posts_;
  Time tick_at_ = 0;
};

}  // namespace troupe::gcs
