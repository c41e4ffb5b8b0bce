// Routes: what becomes of calls when an incarnation, a link or a node ends.
#include <algorithm>
#include <set>

#include "runtime/call/peer.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

constexpr std::size_t kFramesPerRead = 512;

}  // namespace

void RouteTable::requeue(Route& route, CallState& state) {
  auto call = std::move(state.in_flight.retained);
  --call->request.retries;
  call->state = Ref<CallState>::share(&state);
  std::uint64_t number = state.in_flight.call;
  route.waiting.emplace(number, std::move(call));
}

// A call in flight whose incarnation ended: again in its old place if it may be repeated, else it waits for
// the head's word.
void RouteTable::cut_off(Route& route, Ref<CallState> state) {
  if (state->done()) return;
  state->in_flight.peer = nullptr;
  if (state->in_flight.retained && state->in_flight.retained->request.retries > 0)
    requeue(route, *state);
  else
    route.orphans.push_back(std::move(state));
}

void RouteTable::incarnation_over(ActorId actor, std::uint32_t incarnation,
                                  std::shared_ptr<const Error> cause) {
  auto at = routes_.find(actor);
  if (at == routes_.end() || at->second->incarnation > incarnation) return;
  Route& route = *at->second;
  // Those that were cut off before need not wait for what comes next.
  if (!route.orphans.empty() && route.ended <= incarnation) {
    fail_orphans(route, true, cause.get());
  }
  if (route.state == Route::linking) {  // nothing has been sent to it
    route.ended = std::max(route.ended, route.incarnation);
    ask(route);
  }
  if (route.state != Route::open) return;
  ++route.handles;  // replies must not take the route with them
  Peer& peer = *route.peer;
  while (peer.receive(kFramesPerRead) > 0) {
  }
  if (route.state == Route::open && route.peer == &peer) {
    for (auto& state : peer.in_flight_of(route)) {
      peer.abandon(*state);
      cut_off(route, std::move(state));
    }
    route.peer = nullptr;
    route.ended = std::max(route.ended, route.incarnation);
    route.state = Route::unknown;
    if (!route.waiting.empty() || !route.orphans.empty()) ask(route);
  }
  --route.handles;
  forget_if_unused(route);
}

void RouteTable::gone(ActorId actor, std::uint32_t incarnation, Ref<CallState> state, const Error& why) {
  auto at = routes_.find(actor);
  if (at == routes_.end()) {
    if (state) state->fail(why);
    return;
  }
  Route& route = *at->second;
  if ((route.state == Route::open || route.state == Route::local) && route.incarnation == incarnation) {
    route.ended = std::max(route.ended, incarnation);
    if (route.state == Route::open) take_back_in_flight(route, state ? state->in_flight.call : 0);
    route.peer = nullptr;  // its end is not that of the next incarnation
    if (route.state == Route::local && route.local_lane != &lane_) await_returns(route, *route.local_lane);
    route.state = Route::unknown;
  }
  if (state && !state->done()) {
    if (state->in_flight.retained && state->in_flight.retained->request.retries > 0)
      requeue(route, *state);
    else
      state->fail(why);
  }
  move_waiting(route);
}

// Calls made after the one that came back would come back as well, one by one; those that go on to the next
// incarnation keep their order only if all are here before one is sent. One that was made before may be
// running still, and be answered.
void RouteTable::take_back_in_flight(Route& route, std::uint64_t after) {
  ++route.handles;  // the last of them must not take the route with it
  for (auto& state : route.peer->in_flight_of(route)) {
    const auto& made = state->in_flight;
    if (made.call < after || !made.retained || made.retained->request.retries == 0) continue;
    route.peer->abandon(*state);
    cut_off(route, std::move(state));
  }
  --route.handles;
}

// A word about an incarnation that ended may come when the next one is known already, or its death.
void RouteTable::move_waiting(Route& route) {
  switch (route.state) {
    case Route::unknown:
      if (!route.returning && (!route.waiting.empty() || !route.orphans.empty())) ask(route);
      break;
    case Route::open:
    case Route::local:
      if (!route.waiting.empty()) return send_waiting(route);
      break;
    case Route::dead:
      fail_waiting(route, died_error(route.actor, route.incarnation, route.death.get()));
      break;
    case Route::asking:
    case Route::linking:
      break;
  }
  forget_if_unused(route);
}

// Calls made after the one that came back lie in that lane's mailbox still. They keep their order only if
// nothing is sent to the next incarnation before they are back too: what is posted there and back now comes
// after them.
void RouteTable::await_returns(Route& route, Lane& there) {
  if (std::exchange(route.returning, true)) return;
  ++route.handles;
  Lane* here = &lane_;
  there.post_function([here, actor = route.actor] {
    here->post_function([here, actor] {
      RouteTable& table = here->routes();
      auto at = table.routes_.find(actor);
      if (at == table.routes_.end()) return;
      Route& back = *at->second;
      back.returning = false;
      --back.handles;
      table.move_waiting(back);
    });
  });
}

void RouteTable::link_lost(Peer& peer, const std::string& reason) {
  for (auto at = links_.begin(); at != links_.end();) {
    if (at->second.peer == &peer)
      at = links_.erase(at);
    else
      ++at;
  }
  std::set<ActorId> left_behind;
  for (auto& [call, state] : peer.take_in_flight()) {
    Route& route = of(state->in_flight.target);
    --route.in_flight;
    route.broke = reason;
    cut_off(route, std::move(state));
    if (route.peer != &peer) left_behind.insert(route.actor);
  }
  std::vector<ActorId> affected;
  for (auto& [actor, route] : routes_) {
    if (route->peer == &peer) affected.push_back(actor);
  }
  for (ActorId actor : affected) {
    Route& route = *routes_.at(actor);
    route.peer = nullptr;
    route.ended = std::max(route.ended, route.incarnation);
    route.state = Route::unknown;
    if (!route.waiting.empty() || !route.orphans.empty())
      ask(route);
    else
      forget_if_unused(route);
  }
  // Their routes have gone on to a later incarnation, or are about to: the one that these calls were made to
  // has ended, and nobody will ask about it again.
  for (ActorId actor : left_behind) {
    Route& route = *routes_.at(actor);
    if (route.state != Route::asking && route.state != Route::unknown)
      fail_orphans(route, true, route.death.get());
    move_waiting(route);
  }
}

void RouteTable::node_lost(NodeId node) {
  for (auto& [key, entry] : links_) {
    if (entry.node != node) continue;
    if (entry.peer == nullptr) {
      entry.fenced = true;
      continue;
    }
    entry.peer->drop("node " + to_string(node) + " was declared lost");
    lane_.peer_busy(*entry.peer);  // the next turn takes it out
  }
}

void RouteTable::call_ended(Route& route) {
  --route.in_flight;
  if (route.dropped) forget_if_unused(route);
}

void RouteTable::observe_death(Route& route) {
  if (!std::exchange(route.observed, true)) lane_.directory().observed(route.actor);
}

void RouteTable::fail_waiting(Route& route, const Error& why) {
  auto calls = std::move(route.waiting);
  route.waiting.clear();
  for (auto& [number, call] : calls) {
    if (call->state) call->state->fail(why);
  }
}

void RouteTable::fail_orphans(Route& route, bool died, const Error* cause) {
  auto calls = std::move(route.orphans);
  route.orphans.clear();
  for (auto& state : calls) {
    if (died) {
      state->fail(died_error(route.actor, route.ended, cause));
    } else {
      std::string reason = route.broke.empty() ? "" : " (" + route.broke + ")";
      Error error = Error(ErrorKind::unavailable, "the link to actor " + to_string(route.actor) + " broke" +
                                                      reason + "; whether the call ran is not known");
      error.actor = route.actor;
      error.incarnation = route.ended;
      state->fail(std::move(error));
    }
  }
}

void RouteTable::shutdown(const std::string& why) {
  Error error(ErrorKind::cancelled, why);
  for (auto& [actor, route] : routes_) {
    route->dropped = false;  // nothing is erased while this walks
    fail_waiting(*route, error);
    auto calls = std::move(route->orphans);
    for (auto& state : calls) state->fail(error);
    route->state = Route::dead;
    route->death = std::make_shared<const Error>(error);
  }
}

}  // namespace troupe
