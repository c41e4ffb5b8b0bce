// The files of one durable actor, in a folder of its own, private to the user:
//
//   lock      held with flock by the incarnation that writes, and its number; an older one is refused
//   snapshot  the state after some call; replaced whole (written aside, synced, renamed, folder synced)
//   journal   a header that names the call before the first, then blocks; replaced when a snapshot covers it
//
// Owner: FileJournal. Thread: one at a time; every member may block on the disk. Errors: already_exists while
// another process holds the lock; cancelled when a later incarnation has written its number; internal when a
// file is damaged; what the system says otherwise. After an append that failed nothing is lost: append() the
// same block again.
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/os/fd.h"
#include "runtime/durable/journal.h"

namespace troupe {

// The name of an actor's folder, and what its note is called when the folder lies elsewhere.
std::string journal_name(const JournalOwner& owner);
inline constexpr const char* kSharedNote = ".shared";

// The system calls that can fail for want of space; tests stand in front of them.
struct JournalIo {
  virtual ~JournalIo() = default;
  virtual long write(int fd, std::span<const std::byte> bytes, std::uint64_t at);
  virtual int sync(int fd);
  static JournalIo& real();
};

class JournalFile {
 public:
  // Makes the folder if it is missing, takes the lock, reads everything, cuts off what was not written whole.
  static Result<JournalFile> open(const std::string& folder, const JournalOwner& owner, Recovered& recovered,
                                  JournalIo& io = JournalIo::real());

  Result<void> append(std::span<const std::byte> block);  // written and synced
  // Afterwards the journal continues empty at `at`. When it fails the old files still count.
  Result<void> snapshot(std::uint64_t at, std::span<const std::byte> image);

  // Removes the folder, whoever may still write to it.
  static void remove(const std::string& folder);

 private:
  JournalFile(std::string folder, const JournalOwner& owner, JournalIo& io)
      : folder_(std::move(folder)), owner_(owner), io_(&io) {}
  Result<void> lock();
  Result<void> check_fence() const;
  Result<void> recover(Recovered& out);
  Result<void> create_journal(std::uint64_t base);
  Result<void> replace(const char* name, std::span<const std::byte> head, std::span<const std::byte> body,
                       UniqueFd* keep);
  Result<void> write_all(int fd, std::span<const std::byte> bytes, std::uint64_t at, const char* what);
  Result<void> sync_folder();
  std::string path(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
  JournalOwner owner_;
  JournalIo* io_;
  UniqueFd lock_, journal_, directory_;
  std::uint64_t size_ = 0;  // durable bytes of the journal
  bool folder_synced_ = true;
};

}  // namespace troupe
