#include "runtime/call/route.h"

#include <limits>

#include "core/base/throws_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/class_table.h"
#include "runtime/call/invocation.h"
#include "runtime/call/peer.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

// Of calls to durable actors: nobody dies that often.
constexpr int kEndless = std::numeric_limits<int>::max();

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
  try {
    dispatch(route, source, request, number, state);
  } catch (...) {  // from the encoding of an argument
    if (state != nullptr) lane_.forget_deadline(*state);
    throw;
  }
}

void RouteTable::dispatch(Route& route, CallSource& source, const CallRequest& request, std::uint64_t number,
                          CallState* state) {
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
  std::uint64_t number = call->number;
  route.waiting.emplace(number, std::move(call));
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
      call.state->fail(Error(
          ErrorKind::invalid_argument,
          "calls to a durable actor cannot carry references to objects, nor tensors of a GPU (to_cpu)"));
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
  } catch (...) {
    if (call.state) call.state->fail(codec_error(ErrorKind::internal, "arguments do not decode"));
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
  // Where it is not any more it comes back from there, as it would from another lane: after the caller has
  // kept what it takes to send it again.
  if (route.local_lane != &lane_ || !call->try_arrive(lane_)) route.local_lane->post(call);
}

void RouteTable::send_waiting(Route& route) {
  auto calls = std::move(route.waiting);
  route.waiting.clear();
  ++route.handles;  // a call that turns out to be in the wrong place must not take the route with it
  for (auto& [number, call] : calls) {
    if ((route.state != Route::open && route.state != Route::local) || !send(route, *call)) {
      route.waiting.emplace(number, std::move(call));
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
  if (at == routes_.end()) return;
  if (at->second->waiting.erase(number) > 0) return forget_if_unused(*at->second);
  if (at->second->state != Route::local) return;
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

}  // namespace troupe
