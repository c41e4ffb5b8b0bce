// Opens the journals of a worker's durable actors, wherever they lie.
//
// Owner: WorkerHost. Thread: the control thread; `done` runs on it too. Errors: already_exists when the
// earlier incarnation does not let go in time; not_found when a journal that must be there is not; internal
// when it is damaged.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/control/executor.h"
#include "runtime/durable/file_journal.h"
#include "runtime/process/control_plane.h"

namespace troupe {

class Journals {
 public:
  using Done = std::function<void(Result<OpenedJournal>)>;

  // `folder`: the node agent's, for journals of the node and for notes of shared ones.
  Journals(Executor& loop, ControlPlane& plane, std::string folder)
      : loop_(loop), plane_(plane), folder_(std::move(folder)) {}

  void open(const Durability& plan, const JournalOwner& owner, Done done);

 private:
  Result<std::string> prepare(const Durability& plan, const JournalOwner& owner);

  Executor& loop_;
  ControlPlane& plane_;
  std::string folder_;
  std::unique_ptr<JournalThread> thread_;  // when the first is opened
};

}  // namespace troupe
