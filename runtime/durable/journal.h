// Where the blocks and snapshots of a durable actor go. Implemented over files (file_journal.h) and over the
// head's store (runtime/process/store_journal.h).
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "runtime/durable/block.h"

namespace troupe {

// Whose journal it is.
struct JournalOwner {
  std::uint64_t actor = 0, key = 0;
  std::uint32_t incarnation = 0;
  bool served = false;  // an earlier incarnation was alive: the journal must be there
};

// What was found when the actor is made again.
struct Recovered {
  bool found = false;             // an earlier incarnation has written something
  std::uint64_t snapshot_at = 0;  // 0: no snapshot
  Bytes snapshot;
  Bytes image;                    // the bytes that `blocks` lie in
  std::vector<BlockView> blocks;  // those before snapshot_at may be among them
  std::uint64_t last = 0;
};

// Told by the journal, in any thread. The listener outlives the journal's last word.
class JournalListener {
 public:
  virtual ~JournalListener() = default;
  virtual void on_appended(std::uint64_t last) = 0;
  // The block cannot be written now; the journal goes on trying.
  virtual void on_stalled(Error why) = 0;
  virtual void on_snapshot(Result<void> outcome) = 0;
  // It can never be written again: a later incarnation has taken over.
  virtual void on_lost(Error why) = 0;
};

// Thread: the actor's lane calls; nothing blocks. One operation at a time: the next may begin when the
// listener has heard of the end of the one before.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void append(Bytes block, std::uint64_t last, std::shared_ptr<JournalListener> listener) = 0;
  virtual void snapshot(Bytes image, std::uint64_t at, std::shared_ptr<JournalListener> listener) = 0;
  // No further operations; what is under way may still be heard of.
  virtual void close() = 0;
};

// A journal that is ready to be written, and what it held.
struct OpenedJournal {
  std::shared_ptr<Journal> journal;
  std::shared_ptr<Recovered> recovered;
};

}  // namespace troupe
