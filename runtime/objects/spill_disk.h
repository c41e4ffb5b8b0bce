// Spilled objects: one file each in the node's folder, written and read by a thread of its own.
//
// Owner: ObjectService. Called on the control thread; answers are posted there, none after it was dropped.
// Its folder is emptied when it starts. Limits: the store's (StoreCore::Limits::disk); ENOSPC fails a spill,
// and the file is removed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/control/executor.h"
#include "runtime/durable/journal_thread.h"
#include "runtime/objects/object_id.h"

namespace troupe {

class SpillDisk {
 public:
  using Done = std::function<void(Result<void>)>;
  SpillDisk(Executor& loop, std::string folder) : loop_(loop), folder_(std::move(folder)) {}
  ~SpillDisk();

  Result<void> start();
  void write(const ObjectId& id, const std::byte* from, std::uint64_t size, Done done);
  void read(const ObjectId& id, std::byte* to, std::uint64_t size, Done done);
  void remove(const ObjectId& id);

 private:
  std::string path(const ObjectId& id) const;
  void run(std::function<Result<void>()> work, Done done);

  Executor& loop_;
  std::string folder_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::unique_ptr<JournalThread> thread_;  // from the first use
};

}  // namespace troupe
