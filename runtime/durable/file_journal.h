// A journal in files: the work of a JournalFile on the journal thread.
//
// Owner: the durable actor and the jobs under way, together. Thread: any; the file is touched by the journal
// thread alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/durable/journal.h"
#include "runtime/durable/journal_file.h"
#include "runtime/durable/journal_thread.h"

namespace troupe {

class FileJournal final : public Journal, public std::enable_shared_from_this<FileJournal> {
 public:
  // How long an incarnation waits for the end of the one before, which holds the lock.
  static constexpr auto kPatience = std::chrono::seconds(30);

  // Opens the files on the thread; `done` runs there.
  static void open(JournalThread& thread, std::string folder, JournalOwner owner,
                   std::function<void(Result<OpenedJournal>)> done, JournalIo& io = JournalIo::real());

  void append(Bytes block, std::uint64_t last, std::shared_ptr<JournalListener> listener) override;
  void snapshot(Bytes image, std::uint64_t at, std::shared_ptr<JournalListener> listener) override;
  void close() override;

 private:
  FileJournal(JournalThread& thread, JournalFile file) : thread_(thread), file_(std::move(file)) {}

  JournalThread& thread_;
  std::optional<JournalFile> file_;
};

}  // namespace troupe
