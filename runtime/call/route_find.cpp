// Routes: finding the actor, and the link to it.
#include <algorithm>

#include "runtime/call/class_table.h"
#include "runtime/call/peer.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"

namespace troupe {

void RouteTable::ask(Route& route) {
  route.state = Route::asking;
  route.peer = nullptr;
  route.local_lane = nullptr;
  lane_.directory().resolve(route.actor, route.ended, lane_);
}

void RouteTable::learn(const ActorNews& news) {
  auto at = routes_.find(news.actor);
  if (at == routes_.end() || at->second->state != Route::asking) return;
  Route& route = *at->second;
  if (news.phase == Phase::alive && news.incarnation > route.ended) {
    fail_orphans(route, true, news.failure.get());
    if (news.incarnation != route.incarnation) route.failures = 0;
    route.durable = news.durable;
    route.incarnation = news.incarnation;
    open_link(route, news);
  } else if (news.phase == Phase::dead) {
    route.state = Route::dead;
    route.incarnation = std::max(route.incarnation, news.incarnation);
    route.death = news.failure;
    // A call that its caller has given up tells nobody.
    bool heard = false;
    for (auto& orphan : route.orphans) heard |= !orphan->done();
    for (auto& [number, call] : route.waiting) heard |= call->state && !call->state->done();
    if (heard) observe_death(route);
    fail_orphans(route, true, news.failure.get());
    fail_waiting(route, died_error(route.actor, route.incarnation, news.failure.get()));
    forget_if_unused(route);
  } else if (news.infeasible) {
    route.state = Route::unknown;
    Error why =
        news.failure ? *news.failure : Error(ErrorKind::infeasible, "no node could ever hold the actor");
    fail_orphans(route, true, &why);
    fail_waiting(route, why);
    forget_if_unused(route);
  } else {
    ask(route);
  }
}

void RouteTable::learn_failed(ActorId actor, const Error& why) {
  auto at = routes_.find(actor);
  if (at == routes_.end() || at->second->state != Route::asking) return;
  Route& route = *at->second;
  // It may be alive behind a link that broke: the next call finds it again.
  if (route.ended > 0 && route.ended == route.incarnation) --route.ended;
  route.state = Route::unknown;
  fail_orphans(route, false, nullptr);
  if (why.kind == ErrorKind::deadline_exceeded && !route.waiting.empty()) {
    ask(route);
    return;
  }
  fail_waiting(route, why);
  forget_if_unused(route);
}

void RouteTable::open_link(Route& route, const ActorNews& news) {
  const auto& place = news.place;
  if (place->process == lane_.directory().self()) {
    route.local_lane = lane_.directory().lane_at(place->lane);
    route.local_table = find_class(news.class_name);
    if (route.local_lane != nullptr && route.local_table != nullptr) {
      route.state = Route::local;
      send_waiting(route);
      return;
    }
  }
  LinkEntry& entry = links_[{place->process, place->lane}];
  if (entry.peer != nullptr) {
    route.peer = entry.peer;
    route.state = Route::open;
    send_waiting(route);
    return;
  }
  route.state = Route::linking;
  entry.node = place->node;
  entry.waiting.push_back(route.actor);
  if (entry.waiting.size() == 1) lane_.directory().connect(place, lane_);
}

void RouteTable::linked(const Place& place, Result<std::unique_ptr<Link>> link) {
  auto at = links_.find({place.process, place.lane});
  if (at == links_.end()) return;
  auto actors = std::move(at->second.waiting);
  at->second.waiting.clear();
  if (link && at->second.fenced) {
    (*link)->close("its node was declared lost");
    link = Error(ErrorKind::unavailable, "its node was declared lost");
  }
  if (link) {
    Peer& peer = lane_.add_peer(Peer::calling(lane_, std::move(*link), place));
    at->second.peer = &peer;
    for (ActorId actor : actors) {
      auto found = routes_.find(actor);
      if (found == routes_.end() || found->second->state != Route::linking) continue;
      found->second->peer = &peer;
      found->second->state = Route::open;
      send_waiting(*found->second);
    }
    return;
  }
  links_.erase(at);
  for (ActorId actor : actors) {
    auto found = routes_.find(actor);
    if (found == routes_.end() || found->second->state != Route::linking) continue;
    Route& route = *found->second;
    ErrorKind kind = link.error().kind;
    if (kind == ErrorKind::mismatch || kind == ErrorKind::unauthenticated ||
        ++route.failures >= kConnectTries) {
      route.state = Route::unknown;
      fail_waiting(route, link.error());
      forget_if_unused(route);
    } else {
      // Its process is likely to have ended since; the head will tell.
      route.ended = route.incarnation;
      ask(route);
    }
  }
}

}  // namespace troupe
