#include "runtime/call/route.h"

#include <algorithm>
#include <limits>
#include <set>

#include "runtime/call/actor_cell.h"
#include "runtime/call/class_table.h"
#include "runtime/call/invocation.h"
#include "runtime/call/peer.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

// Of calls to durable actors: nobody dies that often.
constexpr int kEndless = std::numeric_limits<int>::max();
constexpr std::size_t kFramesPerRead = 512;

}  // namespace

void make_chain(HopList& out, std::uint64_t call_number) {
  out.clear();
  const Current& now = current();
  if (now.cell == nullptr) return;
  if (now.call != nullptr) out = now.call->chain;
  out.push_back({now.cell->identity().id, call_number});
}

Error died_error(ActorId actor, std::uint32_t incarnation, const Error* cause) {
  Error error(ErrorKind::actor_died, "actor " + to_string(actor) + " (incarnation " +
                                         std::to_string(incarnation) + ") ended before it answered");
  error.actor = actor;
  error.incarnation = incarnation;
  if (cause != nullptr) {
    error.node = cause->node;
    error.message = "actor " + to_string(actor) + " (incarnation " + std::to_string(incarnation) +
                    ") ended: " + cause->message;
    error.because(*cause);
  }
  return error;
}

RouteTable::~RouteTable() = default;

Route& RouteTable::of(ActorId actor) {
  auto& slot = routes_[actor];
  if (!slot) slot = std::make_unique<Route>(actor);
  return *slot;
}

void RouteTable::drop_handle(ActorId actor) {
  auto at = routes_.find(actor);
  if (at == routes_.end() || --at->second->handles > 0) return;
  at->second->dropped = true;
  forget_if_unused(*at->second);
}

void RouteTable::forget_if_unused(Route& route) {
  if (!route.dropped || route.handles > 0 || route.in_flight > 0 || !route.waiting.empty() ||
      !route.orphans.empty() || route.state == Route::asking || route.state == Route::linking) {
    return;
  }
  routes_.erase(route.actor);
}

// ---- calls going out ----

void RouteTable::submit(Route& route, CallSource& source, const CallRequest& request, CallState* state) {
  std::uint64_t number = lane_.next_call_number();
  if (state != nullptr) {
    state->in_flight.call = number;
    state->in_flight.target = route.actor;
    if (request.deadline != 0) lane_.set_deadline(*state, request.deadline);
  }
  bool open = route.state == Route::open;
  bool once = request.retries == 0 && !route.durable;  // it will not be sent again
  if (open && once) {
    scratch_.clear();
    scratch_.set_sharing(route.peer->shares());
    source.encode(scratch_);
    HopList chain;
    make_chain(chain, number);
    auto attachments = scratch_.take_attachments();
    open = route.peer->call(route, request, scratch_.bytes(), chain, state, nullptr, attachments.get());
    scratch_.trim(1 << 20);
    if (open) return;
  }
  if (route.state == Route::local && once) {
    HopList chain;
    make_chain(chain, number);
    send_local(route, source.make_local(), request, std::move(chain), state);
    return;
  }
  if (route.state == Route::dead) {
    if (state != nullptr) {
      observe_death(route);
      state->fail(died_error(route.actor, route.incarnation, route.death.get()));
    }
    return;
  }
  auto call = std::make_unique<QueuedCall>();
  call->number = number;
  call->request = request;
  scratch_.clear();
  scratch_.set_sharing(false);
  source.encode(scratch_);
  call->args.assign(scratch_.bytes().begin(), scratch_.bytes().end());
  call->attachments = scratch_.take_attachments();
  scratch_.trim(1 << 20);
  make_chain(call->chain, number);
  call->state = Ref<CallState>::share(state);
  // A link that is ending takes nothing: the call waits, in its order, for what the loss brings.
  if ((open || route.state == Route::local) && send(route, *call))
    retain(std::move(call));
  else
    enqueue(route, std::move(call));
}

void RouteTable::retain(std::unique_ptr<QueuedCall> call) {
  if (!call->state || call->state->done() || call->request.retries == 0) return;
  Ref<CallState> holder = std::move(call->state);  // no cycle of references
  call->state = nullptr;
  holder->in_flight.retained = std::move(call);
}

// A call to a durable actor keeps its number when it is sent again.
CallNumber RouteTable::number(Route& route, QueuedCall& call) {
  if (call.state && !call.listed()) {
    call.request.retries = kEndless;
    route.outstanding.add(call);
  }
  return {caller_id(lane_.directory().self(), lane_.index()), call.number,
          route.outstanding.floor(call.number)};
}

void RouteTable::submit_encoded(Route& route, std::unique_ptr<QueuedCall> call) {
  CallState* state = call->state.get();
  if (state != nullptr && state->done()) return;
  call->number = lane_.next_call_number();
  if (state != nullptr) {
    state->in_flight.call = call->number;
    state->in_flight.target = route.actor;
    if (call->request.deadline != 0) lane_.set_deadline(*state, call->request.deadline);
  }
  if (route.state == Route::dead) {
    if (state != nullptr) {
      observe_death(route);
      state->fail(died_error(route.actor, route.incarnation, route.death.get()));
    }
  } else if ((route.state == Route::open || route.state == Route::local) && send(route, *call)) {
    retain(std::move(call));
  } else {
    enqueue(route, std::move(call));
  }
}

void RouteTable::enqueue(Route& route, std::unique_ptr<QueuedCall> call) {
  if (route.waiting.size() >= kMostWaiting) {
    if (call->state) {
      call->state->fail(Error(ErrorKind::overloaded, std::to_string(kMostWaiting) + " calls wait for actor " +
                                                         to_string(route.actor) + " already"));
    }
    return;
  }
  route.waiting.push_back(std::move(call));
  if (route.state == Route::unknown && !route.returning)
    ask(route);
  else if (route.state == Route::open)
    lane_.peer_busy(*route.peer);  // closed: the next turn takes it out
}

bool RouteTable::send(Route& route, QueuedCall& call) {
  if (call.state && call.state->done()) return true;
  if (route.durable && call.attachments) {
    // Its journal keeps arguments longer than any object lives.
    if (call.state)
      call.state->fail(
          Error(ErrorKind::invalid_argument, "calls to a durable actor cannot carry references to objects"));
    return true;
  }
  CallNumber number;
  if (route.durable) number = this->number(route, call);
  if (route.state == Route::open && route.durable) {
    return route.peer->call(route, call.request, call.args, call.chain, call.state.get(), &number);
  }
  if (route.state == Route::open) {
    return route.peer->call(route, call.request, call.args, call.chain, call.state.get(), nullptr,
                            call.attachments.get());
  }
  // Within the process, encoded: the class's table decodes it on this side.
  Invocation* invocation = nullptr;
  try {
    Reader reader(call.args, call.attachments.get());
    invocation = route.local_table->methods[call.request.method].decode(reader);
  } catch (const std::exception& e) {
    if (call.state)
      call.state->fail(Error(ErrorKind::internal, std::string("arguments do not decode: ") + e.what()));
    return true;
  }
  auto once = route.durable ? std::make_unique<OnceCall>(number, call.args) : nullptr;
  send_local(route, invocation, call.request, call.chain, call.state.get(), std::move(once));
  return true;
}

void RouteTable::send_local(Route& route, Invocation* call, const CallRequest& request, HopList chain,
                            CallState* state, std::unique_ptr<OnceCall> once) {
  call->once = std::move(once);
  call->state = Ref<CallState>::share(state);
  call->one_way = state == nullptr;
  call->call_number = state != nullptr ? state->in_flight.call : 0;
  call->method = request.method;
  call->target = route.actor;
  call->incarnation = route.incarnation;
  call->deadline = request.deadline;
  call->credit = request.credit;
  call->trace = request.trace;
  call->chain = std::move(chain);
  if (route.local_lane == &lane_)
    call->arrive(lane_);
  else
    route.local_lane->post(call);
}

void RouteTable::send_waiting(Route& route) {
  auto calls = std::move(route.waiting);
  route.waiting.clear();
  ++route.handles;  // a call that turns out to be in the wrong place must not take the route with it
  for (auto& call : calls) {
    if ((route.state != Route::open && route.state != Route::local) || !send(route, *call)) {
      route.waiting.push_back(std::move(call));
      continue;
    }
    retain(std::move(call));
  }
  --route.handles;
  if (route.state == Route::unknown && !route.waiting.empty()) ask(route);
  forget_if_unused(route);
}

void RouteTable::abandon(CallState& state, const Error& why) {
  if (state.done()) return;
  auto holder = Ref<CallState>::share(&state);
  ActorId target = state.in_flight.target;
  std::uint64_t number = state.in_flight.call;
  if (Peer* peer = state.in_flight.peer) peer->abandon(state);
  state.fail(why);
  auto at = routes_.find(target);
  if (at == routes_.end() || at->second->state != Route::local) return;
  Lane* there = at->second->local_lane;
  auto cancel = [there, target, number] {
    auto cell = there->actors().find(target);
    if (cell != there->actors().end()) cell->second->cancel(number);
  };
  if (there == &lane_)
    cancel();
  else
    there->post_function(cancel);
}

void RouteTable::grant(CallState& state, std::uint32_t items) {
  if (state.in_flight.peer != nullptr) {
    state.in_flight.peer->grant(state, items);
    return;
  }
  auto at = routes_.find(state.in_flight.target);
  if (at == routes_.end() || at->second->state != Route::local) return;
  Lane* there = at->second->local_lane;
  auto give = [there, target = state.in_flight.target, number = state.in_flight.call, items] {
    auto cell = there->actors().find(target);
    if (cell != there->actors().end()) cell->second->grant(number, items);
  };
  if (there == &lane_)
    give();
  else
    there->post_function(give);
}

// ---- finding the actor ----

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
    bool heard = !route.orphans.empty();
    for (auto& call : route.waiting) heard |= call->state && !call->state->done();
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

// ---- endings ----

void RouteTable::requeue(Route& route, CallState& state) {
  auto call = std::move(state.in_flight.retained);
  --call->request.retries;
  call->state = Ref<CallState>::share(&state);
  std::uint64_t number = state.in_flight.call;
  auto later = std::find_if(route.waiting.begin(), route.waiting.end(),
                            [&](const auto& other) { return other->number > number; });
  route.waiting.insert(later, std::move(call));
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
    if (route.state == Route::local && route.local_lane != &lane_) await_returns(route, *route.local_lane);
    route.state = Route::unknown;
  }
  if (state && !state->done()) {
    if (state->in_flight.retained && state->in_flight.retained->request.retries > 0)
      requeue(route, *state);
    else
      state->fail(why);
  }
  if (route.state == Route::unknown && !route.waiting.empty() && !route.returning) ask(route);
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
      if (back.state == Route::unknown && !back.waiting.empty()) table.ask(back);
      table.forget_if_unused(back);
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
    if (route.state == Route::asking) continue;
    if (route.state == Route::unknown) {
      if (!route.waiting.empty() || !route.orphans.empty()) ask(route);
      continue;
    }
    fail_orphans(route, true, route.death.get());
    if (route.state == Route::dead)
      fail_waiting(route, died_error(route.actor, route.incarnation, route.death.get()));
    else if (route.state != Route::linking)
      send_waiting(route);
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
  for (auto& call : calls) {
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
