#include "runtime/call/actor_cell.h"

#include <algorithm>

#include "core/base/clock.h"
#include "runtime/call/call_state.h"
#include "runtime/call/invocation.h"
#include "runtime/call/route.h"
#include "runtime/durable/durable_actor.h"
#include "runtime/lane/lane.h"

namespace troupe {

Current& current() {
  thread_local Current now;
  return now;
}

ActorCell::ActorCell(Lane& lane, const ClassTable& table, ActorIdentity identity)
    : lane_(lane), table_(table), identity_(std::make_unique<ActorIdentity>(std::move(identity))) {}

ActorCell::~ActorCell() {
  if (durable_ != nullptr) durable_->detach();
}

Result<void> ActorCell::construct(Reader& args) {
  Current before = std::exchange(current(), Current{this, nullptr});
  ++inside_;
  Result<void> result;
  try {
    object_ = table_.construct(args);
  } catch (...) {
    Error error = current_error();
    error.message = std::string("the constructor of ") + table_.name + " threw: " + error.message;
    error.actor = identity_->id;
    error.incarnation = identity_->incarnation;
    error.node = identity_->node;
    result = std::move(error);
  }
  --inside_;
  current() = before;
  return result;
}

void ActorCell::wake() {
  if (scheduled_ || ended_) return;
  scheduled_ = true;
  lane_.schedule(this);
}

void ActorCell::refuse(Invocation* call, Error error) {
  call->cell = this;
  started_.push_back(call);
  call->running = true;
  ++active_;
  call->failed(std::move(error));
}

void ActorCell::accept(Invocation* call) {
  call->cell = this;
  if (ended_) {
    call->not_here();
    return;
  }
  if (awaited_ != nullptr && !call->chain.empty() && closes_cycle(*call)) {
    refuse(call, cycle_error(*call));
    return;
  }
  if (waiting_ >= kMailboxLimit) {
    refuse(call, Error(ErrorKind::overloaded, "the mailbox of actor " + to_string(identity_->id) + " holds " +
                                                  std::to_string(kMailboxLimit) + " calls already"));
    return;
  }
  call->next = nullptr;
  if (tail_ != nullptr)
    tail_->next = call;
  else
    head_ = call;
  tail_ = call;
  ++waiting_;
  if (active_ < table_.concurrency) wake();
}

void ActorCell::run() {
  scheduled_ = false;
  for (int runs = 0; head_ != nullptr && active_ < table_.concurrency && !ended_; ++runs) {
    if (runs == kRunsInARow) {
      wake();
      break;
    }
    Invocation* call = head_;
    head_ = call->next;
    if (head_ == nullptr) tail_ = nullptr;
    --waiting_;
    // A reply must not wait for the end of a long call after it.
    lane_.publish();
    if (durable_ != nullptr) durable_->before_run();
    start(call);
  }
  if (durable_ != nullptr) durable_->after_runs();
  if (released_ && inside_ == 0 && !scheduled_) delete this;
}

void ActorCell::start(Invocation* call) {
  ++active_;
  started_.push_back(call);
  call->running = true;
  if (call->deadline != 0 && steady_ns() >= call->deadline) {
    call->failed(Error(ErrorKind::deadline_exceeded, "the deadline had passed before the call's turn came"));
    return;
  }
  if (durable_ != nullptr && !durable_->begin(call)) return;
  Current before = std::exchange(current(), Current{this, call});
  ++inside_;
  call->start(object_);
  --inside_;
  current() = before;
  if (ended_ && inside_ == 0) finish_end();
}

void ActorCell::replay(Invocation* call) {
  call->cell = this;
  ++active_;
  started_.push_back(call);
  call->running = true;
  Current before = std::exchange(current(), Current{this, call});
  ++inside_;
  call->start(object_);
  --inside_;
  current() = before;
}

void ActorCell::leave() {
  --inside_;
  if (!ended_ || inside_ > 0) return;
  finish_end();
  if (released_ && !scheduled_) delete this;
}

void ActorCell::done(Invocation* call) {
  std::erase(started_, call);
  if (!call->pausable() || call->running) --active_;
  call->running = false;
  if (durable_ != nullptr)
    durable_->finished(call);
  else
    call->reply();
  if (head_ != nullptr && active_ < table_.concurrency) wake();
}

void ActorCell::paused(Invocation* call) {
  if (!call->running) return;
  call->running = false;
  --active_;
  if (head_ != nullptr && active_ < table_.concurrency) wake();
}

void ActorCell::resumed(Invocation* call) {
  if (call->running) return;
  call->running = true;
  ++active_;
}

void ActorCell::cancel(Invocation& call) {
  call.cancelled = true;
  Invocation* before = nullptr;
  for (Invocation* at = head_; at != nullptr; before = at, at = at->next) {
    if (at != &call) continue;
    (before != nullptr ? before->next : head_) = at->next;
    if (tail_ == at) tail_ = before;
    --waiting_;
    delete at;
    return;
  }
  // A stream that waits for credit that will never come.
  if (call.pausable() && !call.running) {
    std::erase(started_, &call);
    call.abandon();
    delete &call;
  }
}

Invocation* ActorCell::find_local(std::uint64_t call_number) const {
  auto matches = [&](const Invocation* call) {
    return call->peer == nullptr && call->call_number == call_number;
  };
  for (Invocation* at = head_; at != nullptr; at = at->next) {
    if (matches(at)) return at;
  }
  auto at = std::find_if(started_.begin(), started_.end(), matches);
  return at == started_.end() ? nullptr : *at;
}

void ActorCell::cancel(std::uint64_t call_number) {
  if (Invocation* call = find_local(call_number)) cancel(*call);
}

void ActorCell::grant(std::uint64_t call_number, std::uint32_t items) {
  if (Invocation* call = find_local(call_number)) call->grant(items);
}

// ---- cycles ----

bool ActorCell::closes_cycle(const Invocation& call) const {
  if (table_.concurrency > 1) return false;
  for (const Hop& hop : call.chain) {
    // A state that is not itself a call stands for several, of which this may be one.
    if (hop.actor == identity_->id &&
        (awaited_->in_flight.call == 0 || awaited_->in_flight.call == hop.call)) {
      return true;
    }
  }
  return false;
}

Error ActorCell::cycle_error(const Invocation& call) const {
  std::string text;
  for (const Hop& hop : call.chain) text += to_string(hop.actor) + " -> ";
  text += to_string(identity_->id) + " (" + table_.name + ")";
  return Error(ErrorKind::cycle,
               "this call can never be served, since its callee waits for the caller: " + text);
}

void ActorCell::waits_for(CallState* state) {
  awaited_ = state;
  if (state == nullptr) return;
  std::vector<Invocation*> cyclic;
  Invocation* before = nullptr;
  for (Invocation* at = head_; at != nullptr;) {
    Invocation* next = at->next;
    if (!at->chain.empty() && closes_cycle(*at)) {
      (before != nullptr ? before->next : head_) = next;
      if (tail_ == at) tail_ = before;
      --waiting_;
      cyclic.push_back(at);
    } else {
      before = at;
    }
    at = next;
  }
  for (Invocation* call : cyclic) refuse(call, cycle_error(*call));
}

// ---- the end ----

void ActorCell::end(const Error& why) {
  if (ended_) return;
  ended_ = true;
  while (Invocation* call = head_) {
    head_ = call->next;
    call->not_here();
  }
  tail_ = nullptr;
  waiting_ = 0;
  for (Invocation* call : started_) call->cancelled = true;
  if (durable_ != nullptr) durable_->end();
  end_ = why;
  if (awaited_ != nullptr)
    lane_.routes().abandon(*awaited_, Error(ErrorKind::cancelled, "the actor was ended"));
  // What runs now ends by itself, and the last to leave comes back here.
  if (inside_ == 0) finish_end();
}

void ActorCell::finish_end() {
  if (object_ == nullptr) return;
  ++inside_;
  auto suspended = started_;
  for (Invocation* call : suspended) {
    call->abandon();
    call->failed(died_error(identity_->id, identity_->incarnation, &end_));
  }
  Current before = std::exchange(current(), Current{this, nullptr});
  table_.destroy(std::exchange(object_, nullptr));
  current() = before;
  --inside_;
}

void ActorCell::release() {
  released_ = true;
  if (!ended_) end(Error(ErrorKind::cancelled, "its process ends"));
  if (inside_ == 0 && !scheduled_) delete this;
}

}  // namespace troupe
