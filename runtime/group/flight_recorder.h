// The last operations of one rank: what, how much, in which state, when. Kept so that, when a deadline
// passes, the records of several ranks tell which of them called something else, or nothing (diagnosis.h).
//
// Owner: the communicator. Any thread; a record costs well below 1 µs and allocates nothing. Bounded: the
// last kKept operations.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "runtime/group/operation.h"

namespace troupe {

enum class OpState : std::uint8_t { enqueued = 0, started = 1, done = 2, failed = 3 };

struct OpRecord {
  std::uint64_t id = 0;  // submissions of this rank, from 1
  std::uint64_t sequence =
      0;  // collectives: the how many-th, the same on all ranks; else messages with the peer
  OpKind kind = OpKind::barrier;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  OpState state = OpState::enqueued;
  std::int32_t root = -1;         // or the peer; -1 where there is none
  std::int32_t waiting_for = -1;  // the rank that it waited for when it failed; -1: none, or unknown
  std::uint64_t bytes = 0;        // that the rank gives, or takes where it gives nothing
  std::int64_t enqueued_ns = 0, started_ns = 0, done_ns = 0;  // steady clock of that rank; 0: not yet
};

// What is known of one rank.
struct RankReport {
  enum class State : std::uint8_t { answered = 0, dead = 1, unreachable = 2 };
  std::int32_t rank = 0;
  State state = State::answered;
  std::string note;               // of a dead or unreachable one: why
  std::int64_t taken_ns = 0;      // on that rank's clock
  std::vector<OpRecord> records;  // oldest first
};

class FlightRecorder {
 public:
  static constexpr std::size_t kKept = 1024;

  explicit FlightRecorder(int rank) : rank_(rank) {}

  // The record of a new operation; returns its id.
  std::uint64_t enqueue(const OpRecord& what);
  void start(std::uint64_t id);
  void finish(std::uint64_t id, bool ok, int waiting_for = -1);

  RankReport report() const;

 private:
  OpRecord* find(std::uint64_t id);

  const int rank_;
  mutable std::mutex mutex_;
  std::array<OpRecord, kKept> ring_{};
  std::uint64_t last_id_ = 0;
};

std::string to_string(OpState state);
std::string describe(const OpRecord& record);  // "all_reduce #12 sum f32 4,096 bytes, started"
// One operation a line, oldest first; at most `most` of the last ones.
std::string to_text(const RankReport& report, std::size_t most = FlightRecorder::kKept);

// Bytes of a report, for exchanges between processes of one executable. Decoding what is none is an error.
std::string encode_report(const RankReport& report);
Result<RankReport> decode_report(const std::string& bytes);

}  // namespace troupe
