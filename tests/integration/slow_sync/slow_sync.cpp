// Preloaded into redis-server: a disk that is slow, or hangs. In the folder SLOW_SYNC_FOLDER each sync adds a
// byte to `count` and takes SLOW_SYNC_MS longer; while there is a file `hold` it does not end, and `held`
// says that one waits.
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

void note(const std::string& path) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, "x", 1) != 1) std::abort();
  ::close(fd);
}

void nap(long ms) {
  timespec time{ms / 1000, ms % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

void be_slow() {
  const char* name = std::getenv("SLOW_SYNC_FOLDER");
  const char* ms = std::getenv("SLOW_SYNC_MS");
  if (name == nullptr) return;
  std::string folder(name), hold = folder + "/hold";
  note(folder + "/count");
  if (ms != nullptr) nap(std::atol(ms));
  if (::access(hold.c_str(), F_OK) != 0) return;
  note(folder + "/held");
  while (::access(hold.c_str(), F_OK) == 0) nap(5);
}

}  // namespace

extern "C" int fdatasync(int fd) {
  be_slow();
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

extern "C" int fsync(int fd) {
  be_slow();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
