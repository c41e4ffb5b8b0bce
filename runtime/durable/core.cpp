#include "runtime/durable/core.h"

#include <algorithm>
#include <cstring>

#include "runtime/durable/image.h"

namespace troupe {

// ---- callers and what they may ask for again ----

DurableCore::Caller& DurableCore::caller(std::uint64_t id) {
  if (!callers_.empty() && callers_.front().id == id) return callers_.front();
  if (auto known = by_id_.find(id); known != by_id_.end()) {
    callers_.splice(callers_.begin(), callers_, known->second);
    return callers_.front();
  }
  if (callers_.size() >= kMostCallers) forget_oldest();
  callers_.emplace_front().id = id;
  by_id_[id] = callers_.begin();
  return callers_.front();
}

void DurableCore::forget_oldest() {
  Caller& oldest = callers_.back();
  raise_floor(oldest, UINT64_MAX);
  by_id_.erase(oldest.id);
  callers_.pop_back();
}

void DurableCore::raise_floor(Caller& caller, std::uint64_t floor) {
  if (floor <= caller.floor) return;
  caller.floor = floor;
  auto& answers = caller.answers;
  while (caller.gone < answers.size() && answers[caller.gone].sequence < floor) {
    Answer& answer = answers[caller.gone++];
    remembered_bytes_ -= answer.what->size();
    --count_;
    answer.what = nullptr;
  }
  if (caller.gone > 64 && caller.gone * 2 > answers.size()) {
    answers.erase(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(caller.gone));
    caller.gone = 0;
  }
}

DurableCore::Admission DurableCore::admit(std::uint64_t id, std::uint64_t sequence, std::uint64_t floor) {
  Caller& from = caller(id);
  raise_floor(from, floor);
  if (sequence < from.floor) return {Admission::stale, nullptr};
  auto first = from.answers.begin() + static_cast<std::ptrdiff_t>(from.gone);
  if (first == from.answers.end() || from.answers.back().sequence < sequence) return {};
  auto at = std::lower_bound(first, from.answers.end(), sequence,
                             [](const Answer& a, std::uint64_t wanted) { return a.sequence < wanted; });
  if (at != from.answers.end() && at->sequence == sequence) return {Admission::repeat, at->what};
  return {};
}

void DurableCore::remember(std::uint64_t id, std::uint64_t sequence, RememberedPtr answer) {
  Caller& from = caller(id);
  if (sequence < from.floor) return;
  remembered_bytes_ += answer->size();
  ++count_;
  auto& answers = from.answers;
  auto at = answers.end();
  while (at != answers.begin() + static_cast<std::ptrdiff_t>(from.gone) && (at - 1)->sequence > sequence)
    --at;
  answers.insert(at, Answer{sequence, std::move(answer)});
  // Whoever was silent longest is the first to lose its answers; the caller itself is refused instead.
  while (remembered_bytes_ > kMostRemembered && callers_.size() > 1) forget_oldest();
}

std::optional<Error> DurableCore::refusal(std::size_t args) const {
  if (stall_) return stall_;
  bool stored = plan_.place == Durability::Place::store;
  if (stored && args > kMostStoredBlock / 2) {
    return Error(ErrorKind::invalid_argument,
                 "arguments of " + std::to_string(args) + " bytes are too long for a journal in the store");
  }
  if (remembered_bytes_ > kMostRemembered) {
    return Error(ErrorKind::overloaded,
                 std::to_string(remembered_bytes_) + " bytes of answers wait until their caller has them");
  }
  if (open_.size() + args > (stored ? kMostStoredBlock : kMostUnwritten)) {
    return Error(ErrorKind::overloaded,
                 std::to_string(open_.size()) + " bytes of calls wait to be written to the actor's journal");
  }
  if (journal_bytes_ + open_.size() + args > plan_.journal_limit) {
    return Error(ErrorKind::overloaded, "the actor's journal has reached its limit of " +
                                            std::to_string(plan_.journal_limit) +
                                            " bytes, and no snapshot could shorten it");
  }
  return {};
}

// ---- writing ----

std::uint64_t DurableCore::journal(const CallRecord& record) {
  open_.add(record);
  return ++last_;
}

std::optional<DurableCore::Operation> DurableCore::next() {
  if (busy_ != Busy::no) return {};
  if (!sealed_ && !waiting_ && !open_.empty()) {
    std::uint64_t first = last_ - open_.count() + 1;
    sealed_ = Append{open_.finish(first), last_};
  }
  if (sealed_) {
    busy_ = Busy::append;
    journal_bytes_ += sealed_->block.size();
    Append out = std::move(*sealed_);
    sealed_.reset();
    return Operation(std::move(out));
  }
  if (waiting_) {
    busy_ = Busy::snapshot;
    Snapshot out = std::move(*waiting_);
    waiting_.reset();
    return Operation(std::move(out));
  }
  return {};
}

void DurableCore::appended(std::uint64_t last) {
  busy_ = Busy::no;
  stall_.reset();
  durable_ = last;
}

void DurableCore::stalled(Error why) { stall_ = std::move(why); }

void DurableCore::snapshotted(bool good) {
  busy_ = Busy::no;
  snapshotting_ = false;
  if (good) {
    journal_bytes_ = 0;
    retry_above_ = 0;
  } else {
    // Not with each call: when the journal has grown by as much again.
    retry_above_ = journal_bytes_ + std::max<std::uint64_t>(plan_.snapshot_bytes, 1 << 20);
  }
}

bool DurableCore::snapshot_due(std::int64_t now_ms) const {
  if (snapshotting_ || stall_ || (last_ == snapshot_at_ && !requested_)) return false;
  if (requested_) return true;
  if (journal_bytes_ < retry_above_) return false;
  if (plan_.snapshot_calls != 0 && last_ - snapshot_at_ >= plan_.snapshot_calls) return true;
  if (plan_.snapshot_ms != 0 && now_ms - snapshot_time_ >= static_cast<std::int64_t>(plan_.snapshot_ms)) {
    return true;
  }
  return plan_.snapshot_bytes != 0 && journal_bytes_ + open_.size() >= plan_.snapshot_bytes;
}

void DurableCore::snapshot(std::span<const std::byte> state, std::int64_t now_ms) {
  requested_ = false;
  snapshotting_ = true;
  snapshot_at_ = last_;
  snapshot_time_ = now_ms;
  if (!open_.empty()) {
    std::uint64_t first = last_ - open_.count() + 1;
    sealed_ = Append{open_.finish(first), last_};
  }
  waiting_ = Snapshot{image(state), last_};
}

// ---- recovery ----

Bytes DurableCore::image(std::span<const std::byte> state) const {
  ImageWriter out;
  out.number(callers_.size());
  for (const Caller& from : callers_) {
    out.number(from.id);
    out.number(from.floor);
    out.number(from.answers.size() - from.gone);
    for (std::size_t i = from.gone; i < from.answers.size(); ++i) {
      out.number(from.answers[i].sequence);
      out.answer(*from.answers[i].what);
    }
  }
  out.bytes(state);
  return out.take();
}

Result<std::span<const std::byte>> DurableCore::restore(std::span<const std::byte> image, std::uint64_t at) {
  ImageReader in(image);
  std::uint64_t callers = in.number();
  for (std::uint64_t i = 0; i < callers && in.good(); ++i) {
    Caller& from = callers_.emplace_back();
    from.id = in.number();
    from.floor = in.number();
    by_id_[from.id] = std::prev(callers_.end());
    std::uint64_t answers = in.number();
    for (std::uint64_t k = 0; k < answers && in.good(); ++k) {
      std::uint64_t sequence = in.number();
      from.answers.push_back({sequence, in.answer()});
      remembered_bytes_ += from.answers.back().what->size();
      ++count_;
    }
  }
  auto state = in.bytes();
  if (!in.good()) return Error(ErrorKind::internal, "the snapshot of the actor contradicts itself");
  last_ = durable_ = snapshot_at_ = at;
  return state;
}

void DurableCore::replayed(const CallRecord& record, std::uint64_t position) {
  last_ = durable_ = position;
  if (record.caller != 0) raise_floor(caller(record.caller), record.floor);
}

void DurableCore::recovered(std::uint64_t last, std::size_t journal_bytes) {
  last_ = durable_ = last;
  journal_bytes_ = journal_bytes;
}

}  // namespace troupe
