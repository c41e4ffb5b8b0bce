// What a durable actor decides: whether a call runs or its remembered answer is given again, what is written
// next, what may be answered, when a snapshot is due. Pure: no I/O, no clock.
//
// Positions number the journalled calls from 1, for the whole life of the actor. A call runs when it is
// admitted, and its record joins the open block; blocks and snapshots go to the journal one at a time (next),
// and an answer may leave when everything up to its position is durable.
//
// Owner: DurableActor. Thread: the actor's lane.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>

#include "runtime/durable/block.h"
#include "runtime/durable/durability.h"

namespace troupe {

// The outcome of a call as it is given again: an encoded value, or an error.
struct Remembered {
  Bytes value;
  std::unique_ptr<const Error> error;
  std::size_t size() const { return 64 + value.size() + (error ? 256 + error->message.size() : 0); }
};
using RememberedPtr = std::shared_ptr<const Remembered>;

class DurableCore {
 public:
  static constexpr std::size_t kMostCallers = 4096;           // the one silent longest is forgotten
  static constexpr std::size_t kMostRemembered = 256u << 20;  // bytes of answers
  static constexpr std::size_t kMostUnwritten = 256u << 20;   // bytes of the open block, in files

  explicit DurableCore(Durability plan) : plan_(std::move(plan)) {}

  // ---- a call's turn has come ----
  struct Admission {
    enum Verdict { run, repeat, stale } verdict = run;
    RememberedPtr answer;  // repeat
  };
  Admission admit(std::uint64_t caller, std::uint64_t sequence, std::uint64_t floor);
  // Why a call with so many bytes of arguments may not run now: a journal that cannot be written, or bounds.
  std::optional<Error> refusal(std::size_t args) const;
  bool is_stalled() const { return stall_.has_value(); }
  std::uint64_t journal(const CallRecord& record);  // its position
  void remember(std::uint64_t caller, std::uint64_t sequence, RememberedPtr answer);

  // ---- what goes to the journal ----
  struct Append {
    Bytes block;
    std::uint64_t last;
  };
  struct Snapshot {
    Bytes image;
    std::uint64_t at;
  };
  using Operation = std::variant<Append, Snapshot>;
  // The next one, if none is under way.
  std::optional<Operation> next();
  void appended(std::uint64_t last);
  void stalled(Error why);  // the append under way is tried again until it succeeds
  void snapshotted(bool good);
  bool snapshot_due(std::int64_t now_ms) const;
  void request_snapshot() { requested_ = true; }
  // With the object's state after the call at last().
  void snapshot(std::span<const std::byte> state, std::int64_t now_ms);

  std::uint64_t last() const { return last_; }
  bool open_is_empty() const { return open_.empty(); }
  std::uint64_t durable() const { return durable_; }

  // ---- recovery ----
  // Reads a snapshot's image and gives the object's state. `size`: of the journal on top of it.
  Result<std::span<const std::byte>> restore(std::span<const std::byte> image, std::uint64_t at);
  void replayed(const CallRecord& record, std::uint64_t position);  // before the call runs again
  void recovered(std::uint64_t last, std::size_t journal_bytes);

  std::size_t remembered() const { return count_; }
  std::size_t remembered_bytes() const { return remembered_bytes_; }

 private:
  struct Answer {
    std::uint64_t sequence;
    RememberedPtr what;
  };
  struct Caller {
    std::uint64_t id = 0;
    std::uint64_t floor = 0;
    std::vector<Answer> answers;  // ascending; those before `gone` are dropped
    std::size_t gone = 0;
  };
  Caller& caller(std::uint64_t id);
  void raise_floor(Caller& caller, std::uint64_t floor);
  void forget_oldest();
  Bytes image(std::span<const std::byte> state) const;

  Durability plan_;
  std::list<Caller> callers_;  // the latest first
  std::unordered_map<std::uint64_t, std::list<Caller>::iterator> by_id_;
  std::size_t count_ = 0, remembered_bytes_ = 0;

  std::uint64_t last_ = 0, durable_ = 0;
  BlockBuilder open_;
  std::optional<Append> sealed_;  // cut off before a snapshot
  std::optional<Snapshot> waiting_;
  enum class Busy : std::uint8_t { no, append, snapshot } busy_ = Busy::no;
  std::optional<Error> stall_;
  bool requested_ = false, snapshotting_ = false;
  std::uint64_t snapshot_at_ = 0;
  std::int64_t snapshot_time_ = 0;
  std::size_t journal_bytes_ = 0, retry_above_ = 0;
  std::size_t bytes_at_snapshot_ = 0;
};

}  // namespace troupe
