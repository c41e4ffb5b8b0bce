#include "gcs/store/redis_process.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace troupe::gcs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kInstall =
    "install it (apt-get install redis-server), or give the head one that runs: --redis redis://host:port";

std::string random_password() {
  unsigned char bytes[24];
  std::string text;
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

constexpr unsigned long kLeastSpace = 1 << 20;

Result<std::string> find_binary(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) == 0) return name;
    return Error(ErrorKind::not_found, name + " cannot be executed; " + kInstall);
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path != nullptr ? path : "") + ":/usr/bin:/usr/local/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string full = folder + "/" + name;
    if (!folder.empty() && access(full.c_str(), X_OK) == 0) return full;
  }
  return Error(ErrorKind::not_found, name + " is not installed; " + kInstall);
}

// The configuration holds the password, so it is private from its first byte on.
Result<void> write_private(const std::string& path, const std::string& text) {
  ::unlink(path.c_str());
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(errno, path);
  ssize_t written = ::write(fd, text.data(), text.size());
  int number = errno;
  ::close(fd);
  if (written != static_cast<ssize_t>(text.size())) return system_error(written < 0 ? number : ENOSPC, path);
  return {};
}

void pause_shortly() {
  timespec nap{0, 5'000'000};
  nanosleep(&nap, nullptr);
}

std::string last_lines(const std::string& path) {
  std::ifstream in(path);
  std::string all, line;
  while (std::getline(in, line)) {
    if (!line.empty()) all = all.size() > 600 ? line : all + (all.empty() ? "" : " | ") + line;
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<RedisProcess>> RedisProcess::start(Options options) {
  std::unique_ptr<RedisProcess> process(new RedisProcess);
  process->options_ = std::move(options);
  if (auto ok = process->launch(); !ok) return ok.error();
  if (auto ok = process->wait_until_it_answers(); !ok) return ok.error();
  return process;
}

Result<void> RedisProcess::launch() {
  auto binary = find_binary(options_.binary);
  if (!binary) return binary.error();
  std::string directory = std::filesystem::absolute(options_.directory).string();
  std::error_code bad;
  std::filesystem::create_directories(directory, bad);
  if (bad) return system_error(bad.value(), directory);
  if (chmod(directory.c_str(), 0700) != 0) return system_error(errno, directory);
  if (auto locked = lock_directory(); !locked) return locked;
  address_.unix_path = directory + "/redis.sock";
  if (address_.unix_path.size() > 107) {
    return Error(ErrorKind::invalid_argument,
                 "the state directory's path is too long for a socket: " + directory);
  }
  if (address_.password.empty()) address_.password = random_password();
  if (address_.password.empty()) return system_error(errno, "random numbers");
  ::unlink(address_.unix_path.c_str());
  auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
  };
  std::string config = directory + "/redis.conf";
  std::string log = directory + "/redis.log";
  ::unlink(log.c_str());
  auto ok = write_private(
      config, "port 0\nunixsocket " + quoted(address_.unix_path) + "\nunixsocketperm 700\ndir " +
                  quoted(directory) + "\nrequirepass " + address_.password +
                  "\nappendonly yes\nappendfsync always\nsave \"\"\ndaemonize no\nlogfile " + quoted(log) +
                  "\nstop-writes-on-bgsave-error no\n");
  if (!ok) return ok;
  pid_t parent = getpid();
  int lock = lock_.get();
  pid_t pid = fork();
  if (pid < 0) return system_error(errno, "fork");
  if (pid == 0) {
    // At once: what was acknowledged is on disk, and a server that ends in order removes the next one's
    // socket.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);  // Ctrl-C is for the head, which stops the server last
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; ++fd) dup2(null, fd);
    dup2(lock, 3);
    fcntl(3, F_SETFD, 0);  // in case it was the same already
    close_range(4, ~0U, 0);
    execl(binary->c_str(), binary->c_str(), config.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  pid_ = pid;
  return {};
}

Result<void> RedisProcess::lock_directory() {
  if (lock_) return {};
  std::string path = options_.directory + "/lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return system_error(errno, path);
  Clock::time_point deadline = Clock::now() + options_.patience;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() > deadline) {
      return Error(ErrorKind::unavailable, "the redis-server of an earlier head still runs in " +
                                               options_.directory + ": end it, then start the head again");
    }
    pause_shortly();
  }
  lock_ = std::move(lock);
  return {};
}

Result<void> RedisProcess::relaunch() {
  if (running()) return {};
  return launch();
}

Result<void> RedisProcess::wait_until_it_answers() {
  Clock::time_point deadline = Clock::now() + options_.patience;
  std::string trouble = "its socket does not appear";
  while (Clock::now() < deadline) {
    if (!running()) {
      struct statvfs disk {};
      if (::statvfs(options_.directory.c_str(), &disk) == 0 && disk.f_bavail * disk.f_bsize < kLeastSpace) {
        return Error(ErrorKind::resource_exhausted,
                     "redis-server ended at once: there is no space left on the disk of " +
                         options_.directory + "; make room, or use another --state");
      }
      return Error(
          ErrorKind::unavailable,
          "redis-server ended at once: " + last_lines(options_.directory + "/redis.log") + "; " + kInstall);
    }
    timeval limit{1, 0};
    redisContext* context = redisConnectUnixWithTimeout(address_.unix_path.c_str(), limit);
    if (context != nullptr && context->err == 0) {
      redisSetTimeout(context, limit);
      auto* auth = static_cast<redisReply*>(redisCommand(context, "AUTH %s", address_.password.c_str()));
      auto* pong = static_cast<redisReply*>(redisCommand(context, "PING"));
      bool good = pong != nullptr && pong->type == REDIS_REPLY_STATUS;
      if (pong != nullptr && pong->str != nullptr) trouble = pong->str;  // LOADING: a long log is read
      if (auth != nullptr) freeReplyObject(auth);
      if (pong != nullptr) freeReplyObject(pong);
      redisFree(context);
      if (good) return {};
    } else if (context != nullptr) {
      redisFree(context);
    }
    pause_shortly();
  }
  return Error(ErrorKind::unavailable,
               "redis-server does not answer: " + trouble + "; see " + options_.directory + "/redis.log");
}

bool RedisProcess::running() {
  if (pid_ == 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = 0;
  return false;
}

void RedisProcess::end(int signal, std::chrono::milliseconds patience) {
  if (!running()) return;
  ::kill(pid_, signal);
  Clock::time_point deadline = Clock::now() + patience;
  while (running() && Clock::now() < deadline) pause_shortly();
  if (pid_ != 0) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  lock_.reset();
}

void RedisProcess::stop() { end(SIGTERM, std::chrono::seconds(10)); }

void RedisProcess::kill() { end(SIGKILL, std::chrono::seconds(10)); }

RedisProcess::~RedisProcess() { stop(); }

}  // namespace troupe::gcs
