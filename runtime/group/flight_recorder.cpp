#include "runtime/group/flight_recorder.h"

#include <algorithm>
#include <cstdio>

#include "core/base/clock.h"
#include "core/codec/archive.h"

namespace troupe {

std::uint64_t FlightRecorder::enqueue(const OpRecord& what) {
  std::int64_t now = steady_ns();
  std::lock_guard lock(mutex_);
  OpRecord& record = ring_[++last_id_ % kKept];
  record = what;
  record.id = last_id_;
  record.state = OpState::enqueued;
  record.enqueued_ns = now;
  record.started_ns = record.done_ns = 0;
  return last_id_;
}

void FlightRecorder::start(std::uint64_t id) {
  std::int64_t now = steady_ns();
  std::lock_guard lock(mutex_);
  if (OpRecord* record = find(id)) {
    record->state = OpState::started;
    record->started_ns = now;
  }
}

void FlightRecorder::finish(std::uint64_t id, bool ok, int waiting_for) {
  std::int64_t now = steady_ns();
  std::lock_guard lock(mutex_);
  if (OpRecord* record = find(id)) {
    record->state = ok ? OpState::done : OpState::failed;
    record->done_ns = now;
    record->waiting_for = waiting_for;
  }
}

// None when newer ones have taken its place.
OpRecord* FlightRecorder::find(std::uint64_t id) {
  OpRecord& record = ring_[id % kKept];
  return record.id == id ? &record : nullptr;
}

RankReport FlightRecorder::report() const {
  RankReport out;
  out.rank = rank_;
  out.taken_ns = steady_ns();
  std::lock_guard lock(mutex_);
  std::uint64_t first = last_id_ > kKept ? last_id_ - kKept + 1 : 1;
  for (std::uint64_t id = first; id <= last_id_; ++id) out.records.push_back(ring_[id % kKept]);
  return out;
}

std::string to_string(OpState state) {
  constexpr const char* kNames[] = {"enqueued", "started", "done", "failed"};
  return static_cast<std::size_t>(state) < 4 ? kNames[static_cast<std::size_t>(state)] : "?";
}

std::string describe(const OpRecord& record) {
  std::string text = std::string(to_string(record.kind)) + " #" + std::to_string(record.sequence);
  if (reduces(record.kind)) text += std::string(" ") + to_string(record.op);
  if (has_root(record.kind)) text += " root " + std::to_string(record.root);
  if (!is_collective(record.kind))
    text += (record.kind == OpKind::send ? " to rank " : " from rank ") + std::to_string(record.root);
  if (record.kind != OpKind::barrier && record.kind != OpKind::connect)
    text += std::string(" ") + to_string(record.dtype) + " " + std::to_string(record.bytes) + " bytes";
  return text + ", " + to_string(record.state);
}

std::string to_text(const RankReport& report, std::size_t most) {
  std::string text;
  std::size_t skip = report.records.size() > most ? report.records.size() - most : 0;
  char line[96];
  for (std::size_t i = skip; i < report.records.size(); ++i) {
    const OpRecord& r = report.records[i];
    auto ago = [&](std::int64_t at) {
      return at == 0 ? 0.0 : static_cast<double>(report.taken_ns - at) / 1e9;
    };
    std::snprintf(line, sizeof line, "  %8.3f s ago",
                  ago(std::max({r.enqueued_ns, r.started_ns, r.done_ns})));
    text += line;
    text += "  " + describe(r);
    if (r.started_ns != 0 && r.done_ns != 0) {
      std::snprintf(line, sizeof line, " after %.3f ms", static_cast<double>(r.done_ns - r.started_ns) / 1e6);
      text += line;
    }
    if (r.waiting_for >= 0) text += ", waiting for rank " + std::to_string(r.waiting_for);
    text += '\n';
  }
  return text;
}

std::string encode_report(const RankReport& report) {
  Writer to;
  encode(to, report);
  return {reinterpret_cast<const char*>(to.bytes().data()), to.size()};
}

Result<RankReport> decode_report(const std::string& bytes) {
  Reader from(std::as_bytes(std::span(bytes.data(), bytes.size())));
  RankReport report;
  try {
    decode(from, report);
  } catch (const DecodeError& wrong) {
    return Error(ErrorKind::internal, std::string("a rank's flight record cannot be read: ") + wrong.what());
  }
  return report;
}

}  // namespace troupe
