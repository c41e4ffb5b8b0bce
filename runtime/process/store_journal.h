// A journal in the head's store: blocks and snapshots travel through the session. The head answers the
// current incarnation only, so an older one is told that it is lost.
//
// Owner: the durable actor and the requests under way, together. Thread: append, snapshot and close may be
// called by any; the rest runs on the control thread. While head or store are away an append is tried again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/control/executor.h"
#include "runtime/durable/journal.h"
#include "runtime/process/control_plane.h"

namespace troupe {

class StoreJournal final : public Journal, public std::enable_shared_from_this<StoreJournal> {
 public:
  using Done = std::function<void(Result<OpenedJournal>)>;
  static void open(Executor& loop, ControlPlane& plane, const JournalOwner& owner, Done done);

  void append(Bytes block, std::uint64_t last, std::shared_ptr<JournalListener> listener) override;
  void snapshot(Bytes image, std::uint64_t at, std::shared_ptr<JournalListener> listener) override;
  void close() override;

 private:
  struct Block {
    Bytes bytes;
    std::uint64_t last;
    std::shared_ptr<JournalListener> listener;
    bool cut_off = false;  // the connection to the head broke while it was being written
  };
  StoreJournal(Executor& loop, ControlPlane& plane, const JournalOwner& owner)
      : loop_(loop), plane_(plane), owner_(owner) {}
  static void load(std::shared_ptr<StoreJournal> self, int tries, Done done);
  kj::Promise<void> send(std::shared_ptr<Block> block);
  static bool is_lost(const Error& why);

  Executor& loop_;
  ControlPlane& plane_;
  JournalOwner owner_;
  std::vector<std::uint64_t> firsts_;  // of the blocks in the store
  bool closed_ = false;
};

}  // namespace troupe
