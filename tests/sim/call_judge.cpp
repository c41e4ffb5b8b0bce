#include "tests/sim/call_judge.h"

#include "runtime/process/supervisor.h"
#include "tests/sim/judge.h"

namespace troupe::sim {
namespace {

// A failure's grace, the way of the news to the supervisor, and of what it decides to the program.
constexpr std::int64_t kHearing = Supervisor::kGrace / kj::MICROSECONDS + 1'000'000;

}  // namespace

void CallJudge::violation(const Call& call, const std::string& what) {
  judge_.violation("call " + std::to_string(call.number) + " to actor " + to_string(call.target) + ": " +
                   what);
}

// ---- callers ----

std::uint64_t CallJudge::made(const Made& call) {
  std::uint64_t number = ++last_call_;
  Call& made = calls_[number];
  static_cast<Made&>(made) = call;
  made.number = number;
  made.sequence = ++sequences_[{call.program, call.lane, call.target}];
  made.was_dead = judge_.known_dead(call.target);
  if (!call.one_way) outstanding_.insert(number);
  ++counts_[call.one_way ? "call: one way" : "call: with a reply"];
  if (call.by_actor) ++counts_["call: by an actor"];
  if (call.retries > 0) ++counts_["call: with retries"];
  if (call.deadline > 0) ++counts_["call: with a deadline"];
  return number;
}

void CallJudge::cancelled(std::uint64_t call) { calls_.at(call).asked_to_end = true; }

CallJudge::Call* CallJudge::end(std::uint64_t number, const char* how) {
  Call& call = calls_.at(number);
  if (call.ended) {
    violation(call, "it ended twice");
    return nullptr;
  }
  call.ended = true;
  outstanding_.erase(number);
  ++counts_[std::string("call ends: ") + how];
  return &call;
}

// What the caller's lane was told before counts; what others were told does not.
bool CallJudge::listens(const Call& call, const Run& run) const {
  Listener who{call.program, call.lane};
  auto fence = fenced_.find({who, run.actor});
  if (fence != fenced_.end() && run.incarnation <= fence->second) return false;
  auto node = nodes_.find({run.actor, run.incarnation});
  return node == nodes_.end() || lost_.count({who, node->second}) == 0;
}

void CallJudge::taken(std::uint64_t number, std::uint64_t run_number) {
  auto run = runs_.find(run_number);
  if (run == runs_.end()) return;  // answered() tells
  const Call& call = calls_.at(number);
  if (!listens(call, run->second)) {
    violation(call, "its value is of incarnation " + std::to_string(run->second.incarnation) +
                        ", of which the caller knows that it has ended");
  }
}

void CallJudge::answered(std::uint64_t number, std::uint64_t named, std::uint64_t run_number, std::int64_t) {
  Call* call = end(number, "value");
  if (call == nullptr) return;
  auto run = runs_.find(run_number);
  if (named != number) return violation(*call, "it got the value of call " + std::to_string(named));
  if (run == runs_.end() || run->second.call != number)
    return violation(*call, "no run of it made its value");
  if (run->second.actor != call->target) violation(*call, "another actor answered");
}

void CallJudge::failed(std::uint64_t number, const Error& error, std::int64_t now) {
  Call* call = end(number, to_string(error.kind));
  if (call == nullptr) return;
  switch (error.kind) {
    case ErrorKind::deadline_exceeded:
      if (call->deadline == 0 || now < call->deadline) violation(*call, "it had time left");
      break;
    case ErrorKind::cancelled:
      if (!call->asked_to_end && !call->by_actor)
        violation(*call, "nobody cancelled it: " + error.describe());
      break;
    case ErrorKind::actor_died:
      failure_heard(call->program, call->target);
      if (judge_.known_dead(call->target)) heard_.insert({call->program, call->target});
      break;
    case ErrorKind::unavailable:
    case ErrorKind::infeasible:
    case ErrorKind::actor_error:
    case ErrorKind::cycle:
    case ErrorKind::not_found:
      break;
    default:
      violation(*call, "it should not end so: " + error.describe());
  }
  bool told = error.kind == ErrorKind::actor_died || error.kind == ErrorKind::actor_error ||
              error.kind == ErrorKind::infeasible;
  if (call->sure && !sure_over_ && !told) violation(*call, "made in calm, it ended with " + error.describe());
  if (call->sure && !sure_over_ && call->was_dead && error.kind != ErrorKind::actor_died) {
    violation(*call, "its actor was dead, and it ended with " + error.describe());
  }
}

void CallJudge::caller_died(std::uint64_t program) {
  std::erase_if(outstanding_, [&](std::uint64_t number) { return calls_.at(number).program == program; });
  std::erase_if(failures_, [&](const auto& entry) { return entry.first.first == program; });
}

// ---- actors ----

std::uint64_t CallJudge::begins(const Run& run) {
  std::uint64_t number = ++last_run_;
  runs_[number] = run;
  Call& call = calls_.at(run.call);
  ++counts_["call runs"];
  if (call.target != run.actor) violation(call, "it runs in actor " + to_string(run.actor));
  if (++call.runs > 1 + call.retries) violation(call, "it runs more often than it was attempted");
  if (call.runs > 1) ++counts_["call runs again"];
  if (++call.running > 1 && call.retries == 0) violation(call, "it runs twice at the same time");
  int& busy = busy_[run.object];
  if (++busy > 1 && run.alone) violation(call, "its actor runs another call at the same time");
  Handle handle{call.program, call.lane, call.target};
  // One-way calls that lie in the mailbox outlive the link they came over; calls that were cut off behind
  // them are sent again.
  if (call.runs == 1 && !call.one_way) {
    std::uint64_t& before = first_runs_[{handle, run.object}];
    if (call.sequence < before) violation(call, "it runs after one that its handle made later");
    before = std::max(before, call.sequence);
  }
  std::uint64_t& before = link_runs_[{handle, run.object, run.link}];
  if (call.sequence <= before) violation(call, "it runs out of its order, or twice for one attempt");
  before = std::max(before, call.sequence);
  return number;
}

void CallJudge::ends(std::uint64_t number) {
  Run& run = runs_.at(number);
  --calls_.at(run.call).running;
  --busy_[run.object];
}

// ---- what processes were told ----

void CallJudge::fenced(Listener who, ActorId actor, std::uint32_t incarnation) {
  std::uint32_t& known = fenced_[{who, actor}];
  known = std::max(known, incarnation);
}

void CallJudge::fenced(Listener who, NodeId node) { lost_.insert({who, node}); }

void CallJudge::hosted(ActorId actor, std::uint32_t incarnation, NodeId node) {
  nodes_[{actor, incarnation}] = node;
}

void CallJudge::failure_told(std::uint64_t program, ActorId actor, std::int64_t now) {
  if (disowned_.count(actor) > 0) return;
  ++counts_["failure told"];
  if (heard_.count({program, actor}) == 0) failures_.emplace(std::pair(program, actor), now);
}

// The news that it is dead may come before the answer that it was spawned.
void CallJudge::disowned(ActorId actor) {
  disowned_.insert(actor);
  std::erase_if(failures_, [&](const auto& entry) { return entry.first.second == actor; });
}

void CallJudge::failure_heard(std::uint64_t program, ActorId actor) {
  if (failures_.erase({program, actor}) > 0) ++counts_["failure heard"];
}

void CallJudge::failure_ends(std::uint64_t program) {
  ++counts_["program ends for a failure"];
  std::erase_if(failures_, [&](const auto& entry) { return entry.first.first == program; });
}

void CallJudge::check_failures(std::int64_t now) {
  for (const auto& [who, since] : failures_) {
    if (now - since < kHearing) continue;
    judge_.violation("actor " + to_string(who.second) +
                     " is dead for good, and its owner has not heard of it");
  }
}

// ---- the end ----

std::size_t CallJudge::outstanding_if(const std::function<bool(ActorId)>& counts) const {
  std::size_t found = 0;
  for (std::uint64_t number : outstanding_) found += counts(calls_.at(number).target);
  return found;
}

std::string CallJudge::describe_outstanding() const {
  std::string text;
  for (std::uint64_t number : outstanding_) {
    const Call& call = calls_.at(number);
    text += " " + std::to_string(number) + " to " + to_string(call.target) +
            (call.by_actor ? " by an actor" : "");
  }
  return text;
}

}  // namespace troupe::sim
