#include "gcs/head/groups.h"

#include "core/control/kj_error.h"
#include "gcs/head/head_state.h"

namespace troupe::gcs {

kj::Promise<kj::Own<GroupFormed>> Groups::join(GroupJoin join) {
  auto pair = kj::newPromiseAndFulfiller<kj::Own<GroupFormed>>();
  join.request = ++last_request_;
  joins_.emplace(join.request, kj::mv(pair.fulfiller));
  GroupActions out;
  table_.join(std::move(join), head_.now(), out);
  take(std::move(out));
  arm();
  return kj::mv(pair.promise);
}

kj::Promise<kj::Own<GroupPosts>> Groups::post(GroupPost post) {
  auto pair = kj::newPromiseAndFulfiller<kj::Own<GroupPosts>>();
  post.request = ++last_request_;
  posts_.emplace(post.request, kj::mv(pair.fulfiller));
  GroupActions out;
  table_.post(std::move(post), head_.now(), out);
  take(std::move(out));
  arm();
  return kj::mv(pair.promise);
}

// Of ranks that have ended since, by what the control store knows.
void Groups::resume(GroupId group, std::vector<ActorId> members, GroupFormed formed) {
  auto ranks = formed.ranks;
  table_.resume(group, std::move(members), std::move(formed));
  GroupActions out;
  for (const GroupRank& rank : ranks) {
    const ActorRecord* record = head_.core().actor(rank.actor);
    Error unknown(ErrorKind::not_found, "the head knows nothing of it");
    if (record == nullptr) {
      table_.over(rank.actor, rank.incarnation, unknown, true, out);
    } else if (record->incarnation > rank.incarnation || record->phase == Phase::dead ||
               record->phase == Phase::restarting) {
      table_.over(rank.actor, rank.incarnation, record->failure ? *record->failure : unknown,
                  record->phase == Phase::dead, out);
    }
  }
  take(std::move(out));
}

void Groups::leave(GroupId group, ActorId actor, std::uint32_t incarnation) {
  GroupActions out;
  table_.leave(group, actor, incarnation, out);
  take(std::move(out));
}

void Groups::over(const IncarnationOver& over) {
  if (table_.size() == 0) return;
  GroupActions out;
  Error unknown(ErrorKind::actor_died, "it ended");
  table_.over(over.actor, over.incarnation, over.why ? *over.why : unknown, over.final, out);
  take(std::move(out));
}

template <class T>
bool Groups::answer(Asks<T>& asks, GroupReply& reply) {
  auto at = asks.find(reply.request);
  if (at == asks.end()) return false;
  auto ask = kj::mv(at->second);
  asks.erase(at);
  if (auto* error = std::get_if<Error>(&reply.answer))
    ask->reject(kj_exception(*error));
  else
    ask->fulfill(kj::heap<T>(kj::mv(std::get<T>(reply.answer))));
  return true;
}

void Groups::take(GroupActions actions) {
  for (auto& action : actions) {
    if (auto* broken = std::get_if<GroupBroken>(&action)) {
      if (ClientPeer* peer = head_.client(broken->process)) peer->group_broken(*broken);
      continue;
    }
    auto& reply = std::get<GroupReply>(action);
    if (!answer(joins_, reply)) answer(posts_, reply);
  }
}

void Groups::arm() {
  auto at = table_.wake_at();
  if (!at || (tick_at_ != 0 && tick_at_ <= *at)) return;
  tick_at_ = *at;
  Time wait = std::max<Time>(*at - head_.now(), 0);
  head_.background(head_.timer().afterDelay(wait * kj::MILLISECONDS).then([this, at = *at] {
    if (tick_at_ == at) tick_at_ = 0;
    GroupActions out;
    table_.tick(head_.now(), out);
    take(std::move(out));
    arm();
  }));
}

}  // namespace troupe::gcs
