// Removes the files of durable actors that are dead for good. It looks into the folder now and then, asks the
// head about those that do not run here, and removes what the head says is dead. Asking again is harmless, so
// no message that is lost leaves files behind.
//
// Owner: AgentState. Thread: the control thread. What the head does not know is kept for a week: it may be
// another head's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/control/executor.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe {

class JournalKeeper {
 public:
  using RunsHere = std::function<bool(std::uint64_t actor)>;
  JournalKeeper(Executor& loop, std::string folder, RunsHere runs_here)
      : loop_(loop), folder_(std::move(folder)), runs_here_(std::move(runs_here)) {}

  const std::string& folder() const { return folder_; }
  void watch(wire::Membership::Client membership);  // once a second from now on
  // Asks once more, before the node leaves; takes a second at most.
  kj::Promise<void> settle();

 private:
  struct Entry {
    std::uint64_t actor;
    std::string path;  // a folder, or a note that names one
  };
  std::vector<Entry> idle() const;
  kj::Promise<void> ask();
  kj::Promise<void> look();

  Executor& loop_;
  std::string folder_;
  RunsHere runs_here_;
  kj::Maybe<wire::Membership::Client> membership_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for tasks on the loop
};

}  // namespace troupe
