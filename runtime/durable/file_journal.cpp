#include "runtime/durable/file_journal.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto kLockRetry = 20ms;
constexpr auto kWriteRetry = 200ms;

Error closed() { return Error(ErrorKind::cancelled, "the journal is closed: its incarnation has ended"); }

}  // namespace

void FileJournal::open(JournalThread& thread, std::string folder, JournalOwner owner,
                       std::function<void(Result<OpenedJournal>)> done, JournalIo& io) {
  auto until = std::chrono::steady_clock::now() + kPatience;
  thread.post([&thread, &io, folder = std::move(folder), owner, until, done = std::move(done)]() {
    auto recovered = std::make_shared<Recovered>();
    auto file = JournalFile::open(folder, owner, *recovered, io);
    if (!file) {
      bool held = file.error().kind == ErrorKind::already_exists;
      if (held && std::chrono::steady_clock::now() < until) return JournalThread::Again(kLockRetry);
      done(file.error());
      return JournalThread::Again();
    }
    auto journal = std::shared_ptr<FileJournal>(new FileJournal(thread, std::move(*file)));
    done(OpenedJournal{std::move(journal), std::move(recovered)});
    return JournalThread::Again();
  });
}

void FileJournal::append(Bytes block, std::uint64_t last, std::shared_ptr<JournalListener> listener) {
  thread_.post([self = shared_from_this(), block = std::move(block), last, listener = std::move(listener)] {
    auto written = self->file_ ? self->file_->append(block) : Result<void>(closed());
    if (written) {
      listener->on_appended(last);
    } else if (written.error().kind == ErrorKind::cancelled) {
      listener->on_lost(written.error());
    } else {
      listener->on_stalled(written.error());
      return JournalThread::Again(kWriteRetry);
    }
    return JournalThread::Again();
  });
}

void FileJournal::snapshot(Bytes image, std::uint64_t at, std::shared_ptr<JournalListener> listener) {
  thread_.post([self = shared_from_this(), image = std::move(image), at, listener = std::move(listener)] {
    auto written = self->file_ ? self->file_->snapshot(at, image) : Result<void>(closed());
    if (!written && written.error().kind == ErrorKind::cancelled)
      listener->on_lost(written.error());
    else
      listener->on_snapshot(std::move(written));
    return JournalThread::Again();
  });
}

void FileJournal::close() {
  thread_.post([self = shared_from_this()] {
    self->file_.reset();
    return JournalThread::Again();
  });
}

}  // namespace troupe
