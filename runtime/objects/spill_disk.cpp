#include "runtime/objects/spill_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/config/home.h"
#include "core/os/fd.h"

namespace troupe {
namespace {

constexpr std::size_t kPiece = 8 << 20;

Result<void> write_file(const std::string& path, const std::byte* from, std::uint64_t size) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, "cannot create " + path + " for an object");
  for (std::uint64_t at = 0; at < size;) {
    ssize_t n = ::write(fd.get(), from + at, std::min<std::uint64_t>(kPiece, size - at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int number = n == 0 ? ENOSPC : errno;
      ::unlink(path.c_str());
      return system_error(number, "cannot write an object to " + path);
    }
    at += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<void> read_file(const std::string& path, std::byte* to, std::uint64_t size) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Error(ErrorKind::object_lost, system_error(errno, "the spilled object " + path).message);
  for (std::uint64_t at = 0; at < size;) {
    ssize_t n = ::read(fd.get(), to + at, std::min<std::uint64_t>(kPiece, size - at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return Error(ErrorKind::object_lost,
                   "the spilled object " + path + " cannot be read" +
                       (n == 0 ? ": it is too short" : ": " + system_error(errno, "").message));
    at += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace

SpillDisk::~SpillDisk() {
  alive_.reset();
  thread_ = nullptr;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<void> SpillDisk::start() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  return make_private_directory(folder_);
}

std::string SpillDisk::path(const ObjectId& id) const { return folder_ + "/" + to_string(id); }

void SpillDisk::run(std::function<Result<void>()> work, Done done) {
  if (!thread_) thread_ = std::make_unique<JournalThread>();
  thread_->post([this, work = std::move(work), done = std::move(done),
                 alive = std::weak_ptr<int>(alive_)]() -> JournalThread::Again {
    auto result = std::make_shared<Result<void>>(work());
    loop_.post([done, result, alive] {
      if (!alive.expired() && done) done(std::move(*result));
    });
    return {};
  });
}

void SpillDisk::write(const ObjectId& id, const std::byte* from, std::uint64_t size, Done done) {
  run([path = path(id), from, size] { return write_file(path, from, size); }, std::move(done));
}

void SpillDisk::read(const ObjectId& id, std::byte* to, std::uint64_t size, Done done) {
  run([path = path(id), to, size] { return read_file(path, to, size); }, std::move(done));
}

void SpillDisk::remove(const ObjectId& id) {
  run(
      [path = path(id)]() -> Result<void> {
        ::unlink(path.c_str());
        return {};
      },
      nullptr);
}

}  // namespace troupe
