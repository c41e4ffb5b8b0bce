#include "runtime/durable/journal_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/config/home.h"

namespace troupe {
namespace {

constexpr std::uint64_t kJournalMagic = 0x314c4e524a505254;   // "TRPJRNL1"
constexpr std::uint64_t kSnapshotMagic = 0x31504e5353505254;  // "TRPSSNP1"

// Of a journal: `at` is the call before its first, `size` unused. Of a snapshot: the last call in it, and the
// bytes that follow.
struct Head {
  std::uint64_t magic, actor, key, at, size, body, own;
};

std::span<const std::byte> raw(const Head& head) { return std::as_bytes(std::span(&head, 1)); }
std::uint64_t own_sum(const Head& head) { return checksum(raw(head).first(offsetof(Head, own))); }

Result<Bytes> read_file(const std::string& path, bool& found) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  found = static_cast<bool>(fd);
  if (!fd && errno == ENOENT) return Bytes();
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return system_error(errno, "cannot read " + path);
  Bytes out(static_cast<std::size_t>(info.st_size));
  std::size_t have = 0;
  while (have < out.size()) {
    ssize_t n = ::pread(fd.get(), out.data() + have, out.size() - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(errno, "cannot read " + path);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  out.resize(have);
  return out;
}

Result<Head> read_head(const std::string& path, const Bytes& bytes, std::uint64_t magic,
                       const JournalOwner& owner) {
  Head head;
  auto damaged = [&](const char* how) {
    return Error(ErrorKind::internal, path + " " + how +
                                          "; the actor cannot be made again from it. Restore the file, or "
                                          "kill the actor to give its state up");
  };
  if (bytes.size() < sizeof head) return damaged("is cut off");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != magic || head.own != own_sum(head)) return damaged("is damaged");
  if (head.actor != owner.actor || head.key != owner.key) return damaged("belongs to another actor");
  return head;
}

}  // namespace

std::string journal_name(const JournalOwner& owner) {
  char text[48];
  std::snprintf(text, sizeof text, "%llu-%016llx", static_cast<unsigned long long>(owner.actor),
                static_cast<unsigned long long>(owner.key));
  return text;
}

long JournalIo::write(int fd, std::span<const std::byte> bytes, std::uint64_t at) {
  return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
}
int JournalIo::sync(int fd) { return ::fdatasync(fd); }
JournalIo& JournalIo::real() {
  static JournalIo io;
  return io;
}

Result<JournalFile> JournalFile::open(const std::string& folder, const JournalOwner& owner,
                                      Recovered& recovered, JournalIo& io) {
  if (auto made = make_private_directory(folder); !made) return made.error();
  JournalFile file(folder, owner, io);
  file.directory_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.directory_) return system_error(errno, "cannot open the folder " + folder);
  if (auto locked = file.lock(); !locked) return locked.error();
  if (auto read = file.recover(recovered); !read) return read.error();
  return file;
}

Result<void> JournalFile::lock() {
  lock_.reset(::open(path("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return system_error(errno, "cannot open " + path("lock"));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(errno, "cannot lock " + path("lock"));
    return Error(ErrorKind::already_exists,
                 path("lock") + " is held: an earlier incarnation of the actor still runs");
  }
  std::uint32_t known = 0;
  if (::pread(lock_.get(), &known, sizeof known, 0) != sizeof known) known = 0;
  if (known > owner_.incarnation) return check_fence();
  auto number = std::as_bytes(std::span(&owner_.incarnation, 1));
  if (auto written = write_all(lock_.get(), number, 0, "lock"); !written) return written;
  return {};
}

Result<void> JournalFile::check_fence() const {
  std::uint32_t known = 0;
  ssize_t n = ::pread(lock_.get(), &known, sizeof known, 0);
  if (n == sizeof known && known == owner_.incarnation) return {};
  return Error(ErrorKind::cancelled, "incarnation " + std::to_string(known) +
                                         " of the actor has taken its journal over: this is incarnation " +
                                         std::to_string(owner_.incarnation));
}

Result<void> JournalFile::recover(Recovered& out) {
  for (const char* unfinished : {"snapshot.new", "journal.new"}) ::unlink(path(unfinished).c_str());
  bool there = false;
  auto snapshot = read_file(path("snapshot"), there);
  if (!snapshot) return snapshot.error();
  if (there) {
    auto head = read_head(path("snapshot"), *snapshot, kSnapshotMagic, owner_);
    if (!head) return head.error();
    auto body = std::span(*snapshot).subspan(sizeof(Head));
    if (body.size() != head->size || checksum(body) != head->body) {
      return Error(ErrorKind::internal, path("snapshot") + " is damaged");
    }
    out.found = true;
    out.snapshot_at = out.last = head->at;
    out.snapshot.assign(body.begin(), body.end());
  }
  auto journal = read_file(path("journal"), there);
  if (!journal) return journal.error();
  if (!there && out.found)
    return Error(ErrorKind::internal, path("journal") + " is missing beside a snapshot");
  if (!there && owner_.served) {
    return Error(ErrorKind::not_found,
                 path("journal") + " is gone, and with it the actor's state; kill the actor to give it up");
  }
  if (!there) return create_journal(0);
  out.found = true;
  auto head = read_head(path("journal"), *journal, kJournalMagic, owner_);
  if (!head) return head.error();
  if (head->at > out.snapshot_at) {
    return Error(ErrorKind::internal, path("journal") + " continues after call " + std::to_string(head->at) +
                                          ", and the snapshot up to there is missing");
  }
  out.image = std::move(*journal);
  auto scan = scan_blocks(std::span(out.image).subspan(sizeof(Head)), head->at);
  if (!scan) {
    return Error(ErrorKind::internal, path("journal") + " is damaged: " + scan.error().message +
                                          ". Nothing was changed; restore the file, or kill the actor to "
                                          "give its state up");
  }
  out.last = std::max(out.last, scan->last);
  out.blocks = std::move(scan->blocks);
  size_ = sizeof(Head) + scan->sound;
  journal_.reset(::open(path("journal").c_str(), O_RDWR | O_CLOEXEC));
  if (!journal_) return system_error(errno, "cannot open " + path("journal"));
  if (size_ < out.image.size() && ::ftruncate(journal_.get(), static_cast<off_t>(size_)) != 0) {
    return system_error(errno, "cannot shorten " + path("journal"));
  }
  // What was read may not be on the disk yet: the one who wrote it may have died before its sync.
  if (::fsync(journal_.get()) != 0) return system_error(errno, "cannot sync " + path("journal"));
  // A journal that a snapshot covers whole ends where that began.
  if (scan->last < out.snapshot_at) return create_journal(out.snapshot_at);
  return {};
}

Result<void> JournalFile::write_all(int fd, std::span<const std::byte> bytes, std::uint64_t at,
                                    const char* what) {
  while (!bytes.empty()) {
    long n = io_->write(fd, bytes, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error(n < 0 ? errno : ENOSPC, "cannot write " + path(what));
    at += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  if (io_->sync(fd) != 0) return system_error(errno, "cannot sync " + path(what));
  return {};
}

Result<void> JournalFile::replace(const char* name, std::span<const std::byte> head,
                                  std::span<const std::byte> body, UniqueFd* keep) {
  std::string fresh = path(name) + ".new";
  UniqueFd fd(::open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, "cannot create " + fresh);
  auto done = [&]() -> Result<void> {
    if (auto written = write_all(fd.get(), head, 0, name); !written) return written;
    if (!body.empty()) {
      if (auto written = write_all(fd.get(), body, head.size(), name); !written) return written;
    }
    if (::rename(fresh.c_str(), path(name).c_str()) != 0)
      return system_error(errno, "cannot rename " + fresh);
    return {};
  }();
  if (!done) {
    ::unlink(fresh.c_str());
    return done;
  }
  // The name is in place, though perhaps not for good: nothing is acknowledged before that is made up for.
  if (keep != nullptr) *keep = std::move(fd);
  folder_synced_ = false;
  return sync_folder();
}

Result<void> JournalFile::sync_folder() {
  if (folder_synced_) return {};
  if (::fsync(directory_.get()) != 0) return system_error(errno, "cannot sync the folder " + folder_);
  folder_synced_ = true;
  return {};
}

Result<void> JournalFile::create_journal(std::uint64_t base) {
  Head head{kJournalMagic, owner_.actor, owner_.key, base, 0, 0, 0};
  head.own = own_sum(head);
  UniqueFd fresh;
  auto made = replace("journal", raw(head), {}, &fresh);
  if (fresh) {
    journal_ = std::move(fresh);
    size_ = sizeof head;
  }
  return made;
}

Result<void> JournalFile::append(std::span<const std::byte> block) {
  if (auto current = check_fence(); !current) return current;
  if (auto synced = sync_folder(); !synced) return synced;
  if (auto written = write_all(journal_.get(), block, size_, "journal"); !written) return written;
  size_ += block.size();
  return {};
}

Result<void> JournalFile::snapshot(std::uint64_t at, std::span<const std::byte> image) {
  if (auto current = check_fence(); !current) return current;
  Head head{kSnapshotMagic, owner_.actor, owner_.key, at, image.size(), checksum(image), 0};
  head.own = own_sum(head);
  if (auto made = replace("snapshot", raw(head), image, nullptr); !made) return made;
  return create_journal(at);
}

void JournalFile::remove(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace troupe
