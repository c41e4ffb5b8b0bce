#include "core/os/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "core/os/fd.h"

extern char** environ;

namespace troupe {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const auto& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// All that the child needs, built before it exists: it shares memory with its parent and may only make system
// calls.
struct Child {
  const char* executable;
  char** arguments;
  char** environment;
  const char* directory;  // null: stay
  const std::pair<int, int>* fds;
  int* copies;
  std::size_t fd_count;
  int first_free;
  bool new_group;
  int death_signal;
  pid_t parent;
  int report;

  [[noreturn]] void fail(int step) const {
    int message[2] = {step, errno};
    [[maybe_unused]] auto n = ::write(report, message, sizeof message);
    ::_exit(127);
  }

  [[noreturn]] void run() const {
    if (new_group) ::setpgid(0, 0);
    if (death_signal != 0) {
      ::prctl(PR_SET_PDEATHSIG, death_signal);
      if (::getppid() != parent) ::_exit(127);
    }
    // No handler may run here once signals are let in; what is ignored stays so, but for SIGPIPE.
    for (int number = 1; number < 32; ++number) {
      struct sigaction action;
      if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) continue;
      if (action.sa_handler == SIG_IGN && number != SIGPIPE) continue;
      action = {};
      action.sa_handler = SIG_DFL;
      ::sigaction(number, &action, nullptr);
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // First out of the way of the targets, then onto them.
    for (std::size_t i = 0; i < fd_count; ++i) {
      copies[i] = ::fcntl(fds[i].first, F_DUPFD_CLOEXEC, first_free);
      if (copies[i] < 0) fail(0);
    }
    for (std::size_t i = 0; i < fd_count; ++i) {
      if (::dup2(copies[i], fds[i].second) < 0) fail(0);
    }
    if (directory != nullptr && ::chdir(directory) != 0) fail(1);
    ::execve(executable, arguments, environment);
    fail(2);
  }
};

}  // namespace

Result<pid_t> spawn_process(const SpawnOptions& options) {
  auto arguments = pointers(options.arguments);
  auto environment = pointers(options.environment);
  std::vector<int> copies(options.fds.size());
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return system_error(errno, "cannot start " + options.executable);
  UniqueFd reads(report[0]), writes(report[1]);
  Child child{options.executable.c_str(),
              arguments.data(),
              environment.data(),
              options.directory.empty() ? nullptr : options.directory.c_str(),
              options.fds.data(),
              copies.data(),
              options.fds.size(),
              3,
              options.new_group,
              options.death_signal,
              ::getpid(),
              writes.get()};
  for (auto [from, to] : options.fds) child.first_free = std::max(child.first_free, to + 1);
  // Signals would run this process's handlers in the child, on memory that both share.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = ::vfork();
  if (pid == 0) child.run();
  int number = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return system_error(number, "cannot start a process for " + options.executable);
  writes.reset();
  int message[2];
  ssize_t n;
  do n = ::read(reads.get(), message, sizeof message);
  while (n < 0 && errno == EINTR);
  if (n != sizeof message) return pid;
  ::waitpid(pid, nullptr, 0);
  const char* what[] = {"cannot pass descriptors to ", "cannot enter its folder to start ",
                        "cannot execute "};
  std::string text = what[std::clamp(message[0], 0, 2)] + options.executable;
  if (message[0] == 1) text += " (" + options.directory + ")";
  return system_error(message[1], text);
}

std::string describe_exit(int status) {
  if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "ended with wait status " + std::to_string(status);
  int number = WTERMSIG(status);
  const char* name = ::sigabbrev_np(number);
  return "was killed by signal " + std::to_string(number) +
         (name != nullptr ? std::string(" (SIG") + name + ")" : "");
}

Result<std::string> find_program(const std::string& program) {
  auto runs = [](const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != program.npos) {
    if (runs(program)) return program;
    if (::access(program.c_str(), F_OK) != 0)
      return Error(ErrorKind::not_found, "there is no program " + program);
    return Error(ErrorKind::invalid_argument, program + " is not an executable program");
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string full = (folder.empty() ? "." : folder) + "/" + program;
    if (runs(full)) return full;
  }
  return Error(ErrorKind::not_found,
               "there is no program " + program + " in PATH" +
                   (::access(program.c_str(), X_OK) == 0 ? "; did you mean ./" + program + "?" : ""));
}

std::string own_executable() {
  char path[4096];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "";
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> out;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return out;
  while (const dirent* entry = ::readdir(proc)) {
    pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream in("/proc/" + std::string(entry->d_name) + "/stat");
    // Line by line: a process that ends meanwhile is an end of file here, an exception for a bare buffer.
    std::string text;
    std::getline(in, text, '\0');
    // "pid (name) state ppid …": the name may hold anything.
    auto after = text.rfind(')');
    if (after == text.npos) continue;
    char state = 0;
    int parent = 0;
    if (std::sscanf(text.c_str() + after + 1, " %c %d", &state, &parent) == 2 && parent == ::getpid())
      out.push_back(pid);
  }
  ::closedir(proc);
  return out;
}

void kill_children_except(const std::vector<pid_t>& keep) {
  // Each round reaps one generation; the next one then belongs to this process, if it is a sub-reaper.
  for (int round = 0; round < 100; ++round) {
    bool any = false;
    for (pid_t pid : children_of_this_process()) {
      if (std::find(keep.begin(), keep.end(), pid) != keep.end()) continue;
      any = true;
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    if (!any) return;
  }
}

int threads_of_this_process() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Threads:", 0) == 0) return std::atoi(line.c_str() + 8);
  }
  return 1;
}

std::vector<std::string> overlay_environment(const std::vector<std::string>& over,
                                             const std::vector<std::string>& without) {
  auto name_of = [](const std::string& text) { return text.substr(0, text.find('=')); };
  std::vector<std::string> out;
  std::unordered_map<std::string, std::size_t> places;
  auto put = [&](const std::string& text) {
    std::string name = name_of(text);
    if (std::find(without.begin(), without.end(), name) != without.end()) return;
    auto [at, fresh] = places.try_emplace(std::move(name), out.size());
    if (fresh)
      out.push_back(text);
    else
      out[at->second] = text;
  };
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) put(*at);
  for (const auto& text : over) put(text);
  return out;
}

}  // namespace troupe
