#include "gcs/groups/group_table.h"

#include <algorithm>
#include <set>

namespace troupe::gcs {
namespace {

constexpr std::size_t kNamed = 8;  // missing ranks in one message

// Ranks of one node next to each other, nodes in the order of their first member.
void order_by_node(std::vector<GroupRank>& ranks) {
  std::map<NodeId, std::size_t> first;
  for (std::size_t i = 0; i < ranks.size(); ++i) first.emplace(ranks[i].node, i);
  std::stable_sort(ranks.begin(), ranks.end(), [&](const GroupRank& a, const GroupRank& b) {
    return first.at(a.node) < first.at(b.node);
  });
}

Error lost(const GroupRank& rank, std::size_t number, const Error& why) {
  Error error(ErrorKind::actor_died, "rank " + std::to_string(number) + " of the group (actor " +
                                         to_string(rank.actor) + ") is lost: " + why.message);
  error.actor = rank.actor;
  error.incarnation = rank.incarnation;
  error.node = rank.node;
  error.because(why);
  return error;
}

}  // namespace

std::optional<Error> GroupTable::refuse(const GroupJoin& join, const Group* group) const {
  auto bad = [](std::string text) { return Error(ErrorKind::invalid_argument, std::move(text)); };
  std::set<ActorId> distinct(join.members.begin(), join.members.end());
  if (join.members.empty() || join.members.size() > kMostMembers) {
    return bad("a group has 1 to " + std::to_string(kMostMembers) + " members, not " +
               std::to_string(join.members.size()));
  }
  if (distinct.size() != join.members.size()) return bad("an actor is twice a member of the group");
  if (distinct.count(join.rank.actor) == 0) {
    return bad("actor " + to_string(join.rank.actor) + " is not a member of the group");
  }
  if (group == nullptr && groups_.size() >= kMostGroups) {
    return Error(ErrorKind::overloaded, "there are " + std::to_string(kMostGroups) + " groups already");
  }
  if (group != nullptr && group->members != join.members) {
    return bad("the group was made with other members");
  }
  return {};
}

void GroupTable::join(GroupJoin join, Time now, GroupActions& out) {
  auto at = groups_.find(join.group);
  Group* group = at == groups_.end() ? nullptr : &at->second;
  if (auto error = refuse(join, group)) {
    out.push_back(GroupReply{join.request, std::move(*error)});
    return;
  }
  if (group == nullptr) {
    group = &groups_[join.group];
    group->members = join.members;
    for (ActorId member : join.members) groups_of_.emplace(member, join.group);
  }
  GroupId id = join.group;
  // The answer to an earlier attempt got lost.
  bool formed = group->generation > join.after && !group->ranks.empty();
  for (const GroupRank& rank : group->ranks) {
    if (formed && rank.actor == join.rank.actor && rank.incarnation == join.rank.incarnation) {
      out.push_back(GroupReply{join.request, GroupFormed{group->generation, group->ranks}});
      return;
    }
  }
  ActorId actor = join.rank.actor;
  if (auto before = group->joiners.find(actor); before != group->joiners.end()) {
    if (before->second.join.rank.incarnation > join.rank.incarnation) {
      out.push_back(GroupReply{join.request, Error(ErrorKind::cancelled,
                                                   "a later incarnation of the actor has joined the group")});
      return;
    }
    out.push_back(GroupReply{before->second.join.request,
                             Error(ErrorKind::cancelled, "it has joined the group again")});
  }
  Time deadline = now + std::max<Time>(join.patience, 0);
  deadlines_.insert({deadline, id, actor});
  group->left.erase(actor);
  group->joiners[actor] = {std::move(join), deadline};
  try_to_form(id, *group, out);
}

void GroupTable::resume(GroupId id, std::vector<ActorId> members, GroupFormed formed) {
  auto [at, fresh] = groups_.try_emplace(id);
  Group& group = at->second;
  if (fresh) {
    group.members = std::move(members);
    for (ActorId member : group.members) groups_of_.emplace(member, id);
  }
  if (group.generation >= formed.generation) return;
  group.generation = formed.generation;
  group.ranks = std::move(formed.ranks);
}

void GroupTable::try_to_form(GroupId id, Group& group, GroupActions& out) {
  if (group.joiners.empty()) return;
  bool all_reform = std::all_of(group.joiners.begin(), group.joiners.end(), [&](const auto& one) {
    return one.second.join.reform || group.generation > 0;
  });
  if (!group.dead.empty() && !all_reform) {
    const auto& [actor, why] = *group.dead.begin();
    auto number = std::find(group.members.begin(), group.members.end(), actor) - group.members.begin();
    GroupRank rank;
    rank.actor = actor;
    fail_joiners(group, lost(rank, static_cast<std::size_t>(number), why), out);
    return forget_if_unused(id);
  }
  bool complete = std::all_of(group.members.begin(), group.members.end(), [&](ActorId member) {
    return group.dead.count(member) > 0 || group.joiners.count(member) > 0;
  });
  if (complete) form(group, out);
}

void GroupTable::form(Group& group, GroupActions& out) {
  group.ranks.clear();
  group.boards.clear();
  bool keep_order = false;
  std::uint64_t newest = group.generation;
  for (ActorId member : group.members) {
    auto at = group.joiners.find(member);
    if (at == group.joiners.end()) continue;
    keep_order |= at->second.join.keep_order;
    newest = std::max(newest, at->second.join.after);
    group.ranks.push_back(at->second.join.rank);
  }
  if (!keep_order) order_by_node(group.ranks);
  group.generation = newest + 1;
  for (auto& [actor, joiner] : group.joiners) {
    out.push_back(GroupReply{joiner.join.request, GroupFormed{group.generation, group.ranks}});
  }
  group.joiners.clear();
}

void GroupTable::lose(GroupId id, Group& group, ActorId actor, std::uint32_t incarnation, const Error& why,
                      GroupActions& out) {
  auto at = std::find_if(group.ranks.begin(), group.ranks.end(), [&](const GroupRank& rank) {
    return rank.actor == actor && rank.incarnation <= incarnation;
  });
  if (at == group.ranks.end()) return;
  auto number = static_cast<std::uint32_t>(at - group.ranks.begin());
  Error error = lost(*at, number, why);
  std::set<ProcessId> told;
  for (const GroupRank& rank : group.ranks) {
    if (rank.actor != actor && told.insert(rank.process).second) {
      out.push_back(GroupBroken{rank.process, id, group.generation, number, error});
    }
  }
  group.ranks.clear();
  close_boards(group, error, out);
}

void GroupTable::leave(GroupId id, ActorId actor, std::uint32_t incarnation, GroupActions& out) {
  auto at = groups_.find(id);
  if (at == groups_.end()) return;
  lose(id, at->second, actor, incarnation, Error(ErrorKind::cancelled, "it has left the group"), out);
  if (auto joiner = at->second.joiners.find(actor); joiner != at->second.joiners.end()) {
    out.push_back(
        GroupReply{joiner->second.join.request, Error(ErrorKind::cancelled, "it has left the group")});
    at->second.joiners.erase(joiner);
  }
  at->second.left.insert(actor);
  forget_if_unused(id);
}

void GroupTable::over(ActorId actor, std::uint32_t incarnation, const Error& why, bool final,
                      GroupActions& out) {
  std::vector<GroupId> affected;
  auto [begin, end] = groups_of_.equal_range(actor);
  for (auto at = begin; at != end; ++at) affected.push_back(at->second);
  for (GroupId id : affected) {
    Group& group = groups_.at(id);
    lose(id, group, actor, incarnation, why, out);
    if (auto joiner = group.joiners.find(actor);
        joiner != group.joiners.end() && joiner->second.join.rank.incarnation <= incarnation) {
      out.push_back(GroupReply{joiner->second.join.request, why});
      group.joiners.erase(joiner);
    }
    if (final) group.dead.emplace(actor, why);
    try_to_form(id, group, out);
    forget_if_unused(id);
  }
}

Error GroupTable::missing(const Group& group, Time patience) const {
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    ActorId member = group.members[i];
    if (group.joiners.count(member) > 0 || group.dead.count(member) > 0 || ++count > kNamed) continue;
    names += (names.empty() ? "rank " : ", rank ") + std::to_string(i) + " (actor " + to_string(member) + ")";
  }
  if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
  return Error(ErrorKind::deadline_exceeded,
               names + (count == 1 ? " has" : " have") + " not joined the group within " +
                   std::to_string(patience) + " ms; " + std::to_string(group.joiners.size()) + " of " +
                   std::to_string(group.members.size()) +
                   " wait: every member must call group.join(), also after a failure");
}

void GroupTable::tick(Time now, GroupActions& out) {
  // Of one group all those that are late at this moment, so that each counts the others as present.
  std::map<GroupId, std::vector<ActorId>> late;
  for (; !deadlines_.empty() && std::get<Time>(*deadlines_.begin()) <= now;
       deadlines_.erase(deadlines_.begin())) {
    auto [deadline, id, actor] = *deadlines_.begin();
    auto at = groups_.find(id);
    if (at == groups_.end()) continue;
    auto joiner = at->second.joiners.find(actor);
    if (joiner != at->second.joiners.end() && joiner->second.deadline == deadline) late[id].push_back(actor);
  }
  for (auto& [id, actors] : late) {
    Group& group = groups_.at(id);
    for (ActorId actor : actors) {
      const GroupJoin& join = group.joiners.at(actor).join;
      out.push_back(GroupReply{join.request, missing(group, join.patience)});
    }
    for (ActorId actor : actors) group.joiners.erase(actor);
    forget_if_unused(id);
  }
  tick_boards(now, out);
}

std::optional<Time> GroupTable::wake_at() const {
  std::optional<Time> first;
  if (!deadlines_.empty()) first = std::get<Time>(*deadlines_.begin());
  if (!board_deadlines_.empty()) {
    Time other = std::get<Time>(*board_deadlines_.begin());
    first = first ? std::min(*first, other) : other;
  }
  return first;
}

void GroupTable::fail_joiners(Group& group, const Error& why, GroupActions& out) {
  for (auto& [actor, joiner] : group.joiners) out.push_back(GroupReply{joiner.join.request, why});
  group.joiners.clear();
}

// A broken generation is kept as long as a member may form the next one: that is, lives.
void GroupTable::forget_if_unused(GroupId id) {
  auto at = groups_.find(id);
  if (at == groups_.end() || !at->second.joiners.empty() || !at->second.ranks.empty()) return;
  auto returns = [&](ActorId member) {
    return at->second.dead.count(member) == 0 && at->second.left.count(member) == 0;
  };
  if (at->second.generation > 0 &&
      std::any_of(at->second.members.begin(), at->second.members.end(), returns)) {
    return;
  }
  for (ActorId member : at->second.members) {
    auto [begin, end] = groups_of_.equal_range(member);
    for (auto one = begin; one != end; ++one) {
      if (one->second != id) continue;
      groups_of_.erase(one);
      break;
    }
  }
  groups_.erase(at);
}

}  // namespace troupe::gcs
