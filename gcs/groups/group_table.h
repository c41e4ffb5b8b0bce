// Where the ranks of collective groups meet, and how the rest hears when one is lost. Pure: (state, event,
// now) → (state', actions), like the control store, whose incarnations it follows.
//
// A generation forms when every member that is not dead for good has joined: members that restart are waited
// for until somebody's patience ends, and that error names who is missing. The first generation needs all
// members; later ones (reform) are formed by the survivors and their replacements.
//
//   forming ──all joined──▶ formed(g) ──an incarnation in it ends──▶ broken(g) ──all joined──▶ formed(g+1)
//      └─patience ends, or, the first time, a member is dead: an error to those who joined
//
// Nothing of this is durable: after a restart of the head processes join again, or resume what had formed.
//
// Owner: HeadState. Thread: the control thread. Bounded: kMostGroups groups of kMostMembers members.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "gcs/control_store/types.h"

namespace troupe::gcs {

using GroupId = std::uint64_t;  // chosen by who makes the group, unique as an ActorId is

struct GroupRank {
  ActorId actor;
  std::uint32_t incarnation = 0;
  ProcessId process;
  NodeId node;
};

struct GroupJoin {
  RequestId request = 0;
  GroupId group = 0;
  std::vector<ActorId> members;  // as the group was made; the same in each join
  GroupRank rank;
  std::uint64_t after = 0;  // the generation it was in; 0: none
  bool reform = false;      // members that are dead may be missing
  bool keep_order = false;  // ranks in the order of members, not by node
  Time patience = 0;        // milliseconds
};

struct GroupFormed {
  std::uint64_t generation = 0;
  std::vector<GroupRank> ranks;
};

// Ranks of a generation show each other something: their addresses, their records.
struct GroupPost {
  RequestId request = 0;
  GroupId group = 0;
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;
  ProcessId process;        // that holds the rank
  std::uint32_t board = 0;  // each rank posts on it once
  std::string bytes;
  Time patience = 0;     // milliseconds
  bool partial = false;  // then what is there will do
};
struct GroupPosts {
  std::map<std::uint32_t, std::string> by_rank;
};

struct GroupReply {
  RequestId request;
  std::variant<GroupFormed, GroupPosts, Error> answer;
};
// To one process that holds a rank of the generation.
struct GroupBroken {
  ProcessId process;
  GroupId group;
  std::uint64_t generation;
  std::uint32_t rank;  // the lost one
  Error why;
};
using GroupActions = std::vector<std::variant<GroupReply, GroupBroken>>;

class GroupTable {
 public:
  static constexpr std::size_t kMostGroups = 10'000;
  static constexpr std::size_t kMostMembers = 4096;
  static constexpr std::size_t kMostBytes = 256 << 10;  // that one rank shows
  static constexpr std::uint32_t kBoards = 4;

  void join(GroupJoin join, Time now, GroupActions& out);
  // Answered when all ranks have posted; when patience ends or the generation breaks, with an error that
  // names ranks or, if it may be partial, with what is there.
  void post(GroupPost post, Time now, GroupActions& out);
  // A generation that had formed before the head restarted, told by one of its ranks.
  void resume(GroupId group, std::vector<ActorId> members, GroupFormed formed);
  void leave(GroupId group, ActorId actor, std::uint32_t incarnation, GroupActions& out);
  // That incarnation, and all before it, has ended. `final`: there will be no other.
  void over(ActorId actor, std::uint32_t incarnation, const Error& why, bool final, GroupActions& out);
  void tick(Time now, GroupActions& out);
  std::optional<Time> wake_at() const;  // a tick is due then

  std::size_t size() const { return groups_.size(); }

 private:
  struct Joiner {
    GroupJoin join;
    Time deadline = 0;
  };
  struct Reader {
    GroupPost post;
    Time deadline = 0;
  };
  struct Board {
    GroupPosts posts;
    std::vector<Reader> readers;
  };
  struct Group {
    std::map<std::uint32_t, Board> boards;  // of the generation
    std::vector<ActorId> members;
    std::uint64_t generation = 0;
    std::vector<GroupRank> ranks;  // of the generation; empty when it is broken
    std::map<ActorId, Joiner> joiners;
    std::map<ActorId, Error> dead;
    std::set<ActorId> left;  // and did not join again
  };

  std::optional<Error> refuse(const GroupJoin& join, const Group* group) const;
  void try_to_form(GroupId id, Group& group, GroupActions& out);
  void form(Group& group, GroupActions& out);
  void lose(GroupId id, Group& group, ActorId actor, std::uint32_t incarnation, const Error& why,
            GroupActions& out);
  void close_boards(Group& group, const Error& why, GroupActions& out);
  void tick_boards(Time now, GroupActions& out);
  void fail_joiners(Group& group, const Error& why, GroupActions& out);
  Error missing(const Group& group, Time patience) const;
  void forget_if_unused(GroupId id);

  std::map<GroupId, Group> groups_;
  std::unordered_multimap<ActorId, GroupId> groups_of_;
  // Also of those that do not wait any more.
  std::set<std::tuple<Time, GroupId, ActorId>> deadlines_;
  std::set<std::tuple<Time, GroupId, std::uint32_t>> board_deadlines_;
};

}  // namespace troupe::gcs
