// Groups, as a process's session offers them.
#include "core/control/kj_error.h"
#include "gcs/head/cancellation.h"
#include "gcs/head/servants.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {
namespace {

constexpr std::uint32_t kMostPatience = 24 * 3600 * 1000;  // milliseconds

std::vector<ActorId> read_members(capnp::List<std::uint64_t>::Reader from) {
  std::vector<ActorId> out;
  for (auto id : from) out.push_back({id});
  return out;
}

GroupRank read_rank(wire::GroupRank::Reader from) {
  return {{from.getActor()}, from.getIncarnation(), {from.getProcess()}, {from.getNode()}};
}

GroupFormed read_formed(wire::GroupFormed::Reader from) {
  GroupFormed out;
  out.generation = from.getGeneration();
  for (auto rank : from.getRanks()) out.ranks.push_back(read_rank(rank));
  return out;
}

void write_formed(wire::GroupFormed::Builder to, const GroupFormed& formed) {
  to.setGeneration(formed.generation);
  auto ranks = to.initRanks(static_cast<unsigned>(formed.ranks.size()));
  for (unsigned i = 0; i < ranks.size(); ++i) {
    const GroupRank& rank = formed.ranks[i];
    ranks[i].setActor(rank.actor.value);
    ranks[i].setIncarnation(rank.incarnation);
    ranks[i].setProcess(rank.process.value);
    ranks[i].setNode(rank.node.value);
  }
}

}  // namespace

kj::Promise<void> SessionServant::groupJoin(GroupJoinContext context) {
  head().refuse_if_overloaded();
  auto from = context.getParams().getJoin();
  GroupJoin join;
  join.group = from.getGroup();
  join.members = read_members(from.getMembers());
  join.rank = read_rank(from.getRank());
  join.after = from.getAfter();
  join.reform = from.getReform();
  join.keep_order = from.getKeepOrder();
  join.patience = std::min(from.getPatienceMs(), kMostPatience);
  context.releaseParams();
  if (!is_current(join.rank.actor, join.rank.incarnation))
    return not_current(join.rank.actor, join.rank.incarnation);
  join.rank.process = process_;
  join.rank.node = head().core().actor(join.rank.actor)->node;
  // A member that died before it could join is as dead as one that dies now.
  auto& groups = head().groups();
  std::vector<IncarnationOver> dead;
  for (ActorId member : join.members) {
    const ActorRecord* record = head().core().actor(member);
    if (record != nullptr && record->phase == Phase::dead) {
      dead.push_back({member, record->incarnation, record->failure, true});
    }
  }
  allow_cancellation(context);
  auto formed = groups.join(std::move(join));
  for (const IncarnationOver& one : dead) groups.over(one);
  return formed.then([context](kj::Own<GroupFormed>&& answer) mutable {
    write_formed(context.getResults().initFormed(), *answer);
  });
}

kj::Promise<void> SessionServant::groupPost(GroupPostContext context) {
  auto params = context.getParams();
  auto bytes = params.getBytes();
  GroupPost post;
  post.group = params.getGroup();
  post.generation = params.getGeneration();
  post.rank = params.getRank();
  post.process = process_;
  post.board = params.getBoard();
  post.bytes.assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  post.patience = std::min(params.getPatienceMs(), kMostPatience);
  post.partial = params.getPartial();
  context.releaseParams();
  allow_cancellation(context);
  return head().groups().post(std::move(post)).then([context](kj::Own<GroupPosts>&& posts) mutable {
    auto list = context.getResults().initPosts(static_cast<unsigned>(posts->by_rank.size()));
    unsigned i = 0;
    for (const auto& [rank, shown] : posts->by_rank) {
      list[i].setRank(rank);
      list[i++].setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(shown.data()), shown.size()));
    }
  });
}

kj::Promise<void> SessionServant::groupResume(GroupResumeContext context) {
  auto params = context.getParams();
  head().groups().resume(params.getGroup(), read_members(params.getMembers()),
                         read_formed(params.getFormed()));
  return kj::READY_NOW;
}

kj::Promise<void> SessionServant::groupLeave(GroupLeaveContext context) {
  auto params = context.getParams();
  head().groups().leave(params.getGroup(), {params.getActor()}, params.getIncarnation());
  return kj::READY_NOW;
}

}  // namespace troupe::gcs
