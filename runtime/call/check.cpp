// What must hold in the tables of calls between two turns: no call is both ended and outstanding, and each
// that is outstanding has something that will end it. For tests; nothing here is on the way of a call.
#include "runtime/call/call_state.h"
#include "runtime/call/peer.h"
#include "runtime/call/route.h"

namespace troupe {

std::string Peer::check() const {
  std::uint32_t held = 0;
  for (const Slot& slot : slots_) {
    if (!slot.state) continue;
    ++held;
    if (slot.state->done()) return "a call that has ended is in flight";
    if (slot.state->in_flight.peer != this) return "a call in flight does not know its link";
    if (slot.route == nullptr || slot.route->in_flight == 0) return "a call in flight without a route";
  }
  if (held != in_flight_)
    return "a link counts " + std::to_string(in_flight_) + " calls in flight, and holds " +
           std::to_string(held);
  if (!link_->closed() && in_flight_ > 0 && !listed) return "a link with calls in flight is not read";
  return {};
}

std::string RouteTable::check(const Route& route) const {
  bool asks = route.state == Route::asking, links = route.state == Route::linking;
  if (route.state == Route::open) {
    if (route.peer == nullptr) return "an open route without a link";
    bool known = false;
    for (const auto& [place, entry] : links_) known |= entry.peer == route.peer;
    if (!known) return "an open route over a link that is gone";
  }
  if (links) {
    bool waits = false;
    for (const auto& [place, entry] : links_) {
      for (ActorId actor : entry.waiting) waits |= actor == route.actor;
    }
    if (!waits) return "a route waits for a link that nobody sets up";
  }
  std::uint64_t before = 0;
  for (const auto& [number, call] : route.waiting) {
    if (call->number < before) return "calls wait in another order than they were made";
    before = call->number;
    bool ending = route.state == Route::open && route.peer->closed();
    if (call->state && !call->state->done() && !asks && !links && !ending && !route.returning)
      return "a call waits for nothing";
  }
  for (const auto& state : route.orphans) {
    if (!state->done() && !asks && !route.returning) return "a call waits for a word that nobody asked for";
  }
  return {};
}

std::string RouteTable::check() const {
  for (const auto& [actor, route] : routes_) {
    if (std::string bad = check(*route); !bad.empty()) return "actor " + to_string(actor) + ": " + bad;
  }
  return {};
}

}  // namespace troupe
