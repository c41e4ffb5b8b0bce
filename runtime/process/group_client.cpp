#include "runtime/process/group_client.h"

#include "core/control/kj_error.h"

namespace troupe {
namespace {

capnp::Data::Reader as_data(const std::string& bytes) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size());
}

void write_rank(wire::GroupRank::Builder to, const GroupRank& rank) {
  to.setActor(rank.actor.value);
  to.setIncarnation(rank.incarnation);
  to.setProcess(rank.process.value);
  to.setNode(rank.node.value);
}

template <class Builder>
void write_members(Builder to, const std::vector<ActorId>& members) {
  for (unsigned i = 0; i < to.size(); ++i) to.set(i, members[i].value);
}

GroupFormed read_formed(wire::GroupFormed::Reader from) {
  GroupFormed out;
  out.generation = from.getGeneration();
  for (auto rank : from.getRanks()) {
    out.ranks.push_back({{rank.getActor()}, rank.getIncarnation(), {rank.getProcess()}, {rank.getNode()}});
  }
  return out;
}

void write_join(wire::GroupJoin::Builder to, const GroupJoinRequest& join) {
  to.setGroup(join.group);
  write_members(to.initMembers(static_cast<unsigned>(join.members.size())), join.members);
  write_rank(to.initRank(), {join.actor, join.incarnation, {}, {}});
  to.setAfter(join.after);
  to.setReform(join.reform);
  to.setKeepOrder(join.keep_order);
  to.setPatienceMs(join.patience_ms);
}

}  // namespace

void GroupClient::join(GroupJoinRequest request, GroupJoined joined, GroupBroken broken) {
  Key key{request.group, request.actor};
  auto& membership = memberships_[key];
  membership.formed = {};
  membership.broken = std::move(broken);
  membership.request = std::move(request);
  auto what = std::make_shared<GroupJoinRequest>(membership.request);
  session_.request(
      [this, key, what, joined](wire::Session::Client& session) {
        auto call = session.groupJoinRequest();
        write_join(call.initJoin(), *what);
        return call.send().then([this, key, joined](capnp::Response<wire::Session::GroupJoinResults> answer) {
          GroupFormed formed = read_formed(answer.getFormed());
          auto at = memberships_.find(key);
          if (at != memberships_.end()) at->second.formed = formed;
          joined(std::move(formed));
        });
      },
      [joined](const Error& why) { joined(why); });
}

void GroupClient::post(GroupPostRequest request, GroupPosted posted) {
  auto what = std::make_shared<GroupPostRequest>(std::move(request));
  session_.request(
      [what, posted](wire::Session::Client& session) {
        auto call = session.groupPostRequest();
        call.setGroup(what->group);
        call.setGeneration(what->generation);
        call.setRank(what->rank);
        call.setBoard(what->board);
        call.setBytes(as_data(what->bytes));
        call.setPatienceMs(what->patience_ms);
        call.setPartial(what->partial);
        return call.send().then([posted](capnp::Response<wire::Session::GroupPostResults> answer) {
          std::map<std::uint32_t, std::string> by_rank;
          for (auto post : answer.getPosts()) {
            auto bytes = post.getBytes();
            by_rank[post.getRank()].assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
          }
          posted(std::move(by_rank));
        });
      },
      [posted](const Error& why) { posted(why); });
}

void GroupClient::leave(std::uint64_t group, ActorId actor, std::uint32_t incarnation) {
  // The next incarnation may have taken the place already: the end of an old one can come late.
  auto at = memberships_.find({group, actor});
  if (at != memberships_.end() && at->second.request.incarnation == incarnation) memberships_.erase(at);
  session_.request(
      [group, actor, incarnation](wire::Session::Client& session) {
        auto call = session.groupLeaveRequest();
        call.setGroup(group);
        call.setActor(actor.value);
        call.setIncarnation(incarnation);
        return call.send().ignoreResult();
      },
      [](const Error&) {});
}

void GroupClient::broken(std::uint64_t group, std::uint64_t generation, std::uint32_t rank,
                         const Error& why) {
  std::vector<GroupBroken> tell;
  for (auto at = memberships_.lower_bound({group, ActorId{}});
       at != memberships_.end() && at->first.first == group; ++at) {
    // The news may overtake the answer to the join that formed it.
    if (at->second.formed.generation != 0 && at->second.formed.generation != generation) continue;
    at->second.formed = {};
    tell.push_back(at->second.broken);
  }
  for (auto& one : tell) one(generation, rank, why);
}

void GroupClient::resume() {
  for (auto& [key, membership] : memberships_) {
    if (membership.formed.generation == 0) continue;
    auto what = std::make_shared<Membership>(membership);
    session_.request(
        [what](wire::Session::Client& session) {
          auto call = session.groupResumeRequest();
          call.setGroup(what->request.group);
          write_members(call.initMembers(static_cast<unsigned>(what->request.members.size())),
                        what->request.members);
          auto formed = call.initFormed();
          formed.setGeneration(what->formed.generation);
          auto ranks = formed.initRanks(static_cast<unsigned>(what->formed.ranks.size()));
          for (unsigned i = 0; i < ranks.size(); ++i) write_rank(ranks[i], what->formed.ranks[i]);
          return call.send().ignoreResult();
        },
        [](const Error&) {});
  }
}

}  // namespace troupe
