#include "runtime/durable/durable_actor.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/throws_error.h"
#include "core/os/cpu.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/invocation.h"
#include "runtime/call/peer.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

std::int64_t now_ms() { return steady_ns() / 1'000'000; }

}  // namespace

DurableActor::DurableActor(ActorCell& cell, Lane& lane, Durability plan, std::shared_ptr<Journal> journal,
                           Lost lost)
    : cell_(&cell),
      lane_(lane),
      core_(std::move(plan)),
      journal_(std::move(journal)),
      lost_(std::move(lost)),
      name_("actor " + to_string(cell.identity().id) + " (" + cell.table().name + ")") {}

// ---- calls ----

void DurableActor::before_run() {
  constexpr std::uint64_t kTicks = 200'000;  // some 80 µs
  if (core_.last() > core_.durable() && cpu_ticks() - opened_ > kTicks) pump();
}

bool DurableActor::begin(Invocation* call) {
  if (ended_) {
    cell_->done(call);
    return false;
  }
  // What is built in changes nothing and may be asked twice, and so may methods that only read.
  bool writes = call->method < cell_->table().methods.size() && cell_->table().methods[call->method].writes;
  OnceCall* once = call->once.get();
  // A stalled journal refuses those that read as well: they would tell of what may be lost.
  if (core_.is_stalled()) {
    call->failed(*core_.refusal(0));
    return false;
  }
  if (!writes) return true;
  if (once == nullptr) {
    call->failed(Error(ErrorKind::mismatch, "a call to a durable actor came without a number"));
    return false;
  }
  const CallNumber& number = once->number;
  auto admission = core_.admit(number.caller, number.sequence, number.floor);
  if (admission.verdict == DurableCore::Admission::stale) {
    call->failed(Error(ErrorKind::cancelled, "its caller has given this call up"));
    return false;
  }
  if (admission.verdict == DurableCore::Admission::repeat) {
    once->answer = std::move(admission.answer);
    cell_->done(call);
    return false;
  }
  // Not before: one that comes again has run, and a caller that has its answers makes room for more.
  if (auto why = core_.refusal(once->args.size())) {
    call->failed(std::move(*why));
    return false;
  }
  if (core_.open_is_empty()) opened_ = cpu_ticks();
  once->position =
      core_.journal({number.caller, number.sequence, number.floor, call->method, call->one_way, once->args});
  once->args = Bytes();
  return true;
}

RememberedPtr DurableActor::outcome_of(Invocation& call) {
  auto out = std::make_shared<Remembered>();
  if (call.error_) {
    out->error = std::make_unique<const Error>(*call.error_);
    return out;
  }
  static thread_local Writer scratch;
  scratch.clear();
  try {
    call.encode_result(scratch);
    if (scratch.has_attachments())
      throw DecodeError("results of durable actors cannot refer to objects or tensors of a GPU (to_cpu)");
    out->value.assign(scratch.bytes().begin(), scratch.bytes().end());
  } catch (...) {
    out->error = std::make_unique<const Error>(
        ErrorKind::internal, std::string("the result could not be encoded: ") + exception_text());
  }
  scratch.trim();
  return out;
}

void DurableActor::finished(Invocation* call) {
  OnceCall* once = call->once.get();
  Held held{core_.last(), call, nullptr};
  if (once != nullptr && once->answer) {
    held.answer = once->answer;
  } else if (once != nullptr && once->position != 0 && !call->one_way) {
    held.answer = outcome_of(*call);
    core_.remember(once->number.caller, once->number.sequence, held.answer);
  }
  if (replaying_) {
    delete call;
    return;
  }
  if (ended_) {
    call->not_here();
    return;
  }
  bool at_once = held_.empty() && held.position <= core_.durable();
  if (at_once)
    send(std::move(held));
  else
    held_.push_back(std::move(held));
  snapshot_if_due();
}

void DurableActor::send(Held held) {
  Invocation* call = held.call;
  if (call->peer != nullptr && held.answer) {
    if (held.answer->error)
      call->peer->reply(*call, FrameKind::failure, *held.answer->error);
    else
      call->peer->reply(*call, held.answer->value);
    delete call;
  } else if (call->state && held.answer && call->once->answer) {
    // Of this process, and it ran before: what it carries is not the outcome.
    Lane& there = call->state->lane();
    auto deliver = [state = std::move(call->state), answer = held.answer] {
      if (answer->error) {
        state->fail(*answer->error);
      } else {
        Reader reader(answer->value);
        state->finish_from(reader);
      }
    };
    delete call;
    if (&there == &lane_)
      deliver();
    else
      there.post_function(std::move(deliver));
  } else {
    call->reply();
  }
}

void DurableActor::release() {
  while (!held_.empty() && held_.front().position <= core_.durable()) {
    Held held = std::move(held_.front());
    held_.pop_front();
    send(std::move(held));
  }
}

void DurableActor::fail_held(const Error& why) {
  auto held = std::move(held_);
  held_.clear();
  for (Held& one : held) {
    one.call->error_ = std::make_unique<Error>(why);
    one.call->reply();
  }
}

// ---- the journal ----

void DurableActor::snapshot_if_due() {
  if (cell_ == nullptr || cell_->busy() || !core_.snapshot_due(now_ms())) return;
  Writer state;
  try {
    cell_->table().save(cell_->object(), state);
  } catch (...) {
    core_.snapshotted(false);
    log(Level::warning, name_ + " could not be saved, its journal goes on growing: " + exception_text());
    return;
  }
  core_.snapshot(state.bytes(), now_ms());
}

void DurableActor::pump() {
  if (ended_) return;
  auto next = core_.next();
  if (!next) return;
  auto self = shared_from_this();
  if (auto* append = std::get_if<DurableCore::Append>(&*next))
    journal_->append(std::move(append->block), append->last, std::move(self));
  else if (auto* snapshot = std::get_if<DurableCore::Snapshot>(&*next))
    journal_->snapshot(std::move(snapshot->image), snapshot->at, std::move(self));
}

void DurableActor::after_runs() { pump(); }

template <class F>
void DurableActor::on_lane(F f) {
  lane_.post_function([self = shared_from_this(), f = std::move(f)]() mutable { f(*self); });
}

void DurableActor::on_appended(std::uint64_t last) {
  on_lane([last](DurableActor& self) {
    if (self.ended_) return;
    self.core_.appended(last);
    // First the next write, then the answers: the disk is not kept waiting.
    self.pump();
    self.release();
  });
}

void DurableActor::on_stalled(Error why) {
  on_lane([why = std::move(why)](DurableActor& self) {
    if (self.ended_) return;
    Error told = why;
    told.message = "the journal of " + self.name_ +
                   " cannot be written, and whether this call takes effect is not known: " + why.message;
    Error later = why;
    later.message = "the journal of " + self.name_ + " cannot be written: " + why.message;
    self.core_.stalled(std::move(later));
    self.fail_held(told);
  });
}

void DurableActor::on_snapshot(Result<void> outcome) {
  bool good = static_cast<bool>(outcome);
  if (!good) log(Level::warning, name_ + ": no snapshot: " + outcome.error().message);
  on_lane([good](DurableActor& self) {
    if (self.ended_) return;
    self.core_.snapshotted(good);
    self.pump();
  });
}

void DurableActor::on_lost(Error why) {
  on_lane([why = std::move(why)](DurableActor& self) {
    if (self.ended_ || !self.lost_) return;
    auto lost = std::move(self.lost_);
    self.lost_ = nullptr;
    self.end();
    lost(why);
  });
}

// ---- the ends ----

void DurableActor::end() {
  ended_ = true;
  auto held = std::move(held_);
  held_.clear();
  for (Held& one : held) one.call->not_here();
  if (journal_) journal_->close();
  journal_ = nullptr;
}

void DurableActor::detach() {
  if (!ended_) end();
  cell_ = nullptr;
}

Result<void> DurableActor::recover(const Recovered& from) {
  if (from.snapshot_at != 0 || !from.snapshot.empty()) {
    auto state = core_.restore(from.snapshot, from.snapshot_at);
    if (!state) return state.error();
    try {
      Reader reader(*state);
      cell_->table().load(cell_->object(), reader);
    } catch (...) {
      return Error(ErrorKind::actor_error, name_ + " could not load its snapshot: " + exception_text());
    }
  }
  replaying_ = true;
  Result<void> good;
  std::size_t bytes = 0;
  for (const BlockView& block : from.blocks) {
    bytes += block.size;
    if (good) good = replay(block, from.snapshot_at);
  }
  replaying_ = false;
  if (!good) return good;
  core_.recovered(from.last, bytes);
  return {};
}

Result<void> DurableActor::replay(const BlockView& block, std::uint64_t after) {
  auto rest = block.records;
  CallRecord record;
  for (std::uint64_t position = block.first; position < block.first + block.count; ++position) {
    if (!next_record(rest, record) || record.method >= cell_->table().methods.size()) {
      return Error(ErrorKind::internal,
                   "call " + std::to_string(position) + " in the journal of " + name_ + " makes no sense");
    }
    if (position <= after) continue;
    core_.replayed(record, position);
    Invocation* call;
    try {
      Reader reader(record.args);
      call = cell_->table().methods[record.method].decode(reader);
    } catch (...) {
      return Error(ErrorKind::internal, "call " + std::to_string(position) + " in the journal of " + name_ +
                                            " could not be decoded: " + exception_text());
    }
    CallNumber number{record.caller, record.sequence, record.floor};
    call->once = std::make_unique<OnceCall>(number, std::span<const std::byte>());
    call->once->position = position;
    call->method = record.method;
    call->one_way = record.one_way;
    call->target = cell_->identity().id;
    call->incarnation = cell_->identity().incarnation;
    cell_->replay(call);
  }
  return {};
}

}  // namespace troupe
