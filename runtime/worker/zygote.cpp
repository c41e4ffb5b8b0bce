#include "runtime/worker/zygote.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "core/os/fd.h"
#include "core/os/process.h"

namespace troupe {
namespace {

using zygote::Notice;
using zygote::Request;

class Zygote {
 public:
  Zygote(int socket, std::string program)
      : socket_(socket), program_(std::move(program)), self_(::getpid()) {}

  std::optional<WorkerStart> run() {
    int flags = ::fcntl(socket_, F_GETFD);
    if (flags < 0) ::_exit(2);
    ::fcntl(socket_, F_SETFD, flags | FD_CLOEXEC);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what workers leave behind comes to us
    // If the system itself runs out of memory: workers before agents, heads and stores.
    std::ofstream("/proc/self/oom_score_adj") << 500;
    if (program_.empty()) {
      if (int threads = threads_of_this_process(); threads > 1) {
        Notice notice;
        notice.what = Notice::threads;
        notice.number = threads;
        say(notice);
        ::_exit(0);
      }
    } else {
      read_arguments();
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, &mask_);
    ended_ = ::signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    say({});
    for (;;) {
      pollfd waits[2] = {{socket_, POLLIN, 0}, {ended_, POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) ::_exit(2);
      if (waits[1].revents != 0) reap();
      while (waits[0].revents != 0 && receive()) {
        if (start_) return std::move(start_);
      }
    }
  }

 private:
  // One message; false when none is there. Ends the process when the agent is gone.
  bool receive() {
    iovec piece{buffer_, sizeof buffer_};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * zygote::kFds)];
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n = ::recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) end();
    int fds[zygote::kFds] = {-1, -1, -1};
    for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      std::memcpy(fds, CMSG_DATA(c),
                  std::min(sizeof fds, static_cast<std::size_t>(c->cmsg_len - CMSG_LEN(0))));
    }
    Request request;
    if (static_cast<std::size_t>(n) >= sizeof request) {
      std::memcpy(&request, buffer_, sizeof request);
      std::string_view text(buffer_ + sizeof request, static_cast<std::size_t>(n) - sizeof request);
      if (request.what == Request::kill)
        kill_group(request.pid);
      else if (request.what == Request::start)
        start(request.token, text, fds);
    }
    if (!start_) {
      for (int fd : fds) {
        if (fd >= 0) ::close(fd);
      }
    }
    return true;
  }

  void start(std::uint64_t token, std::string_view text, const int (&fds)[zygote::kFds]) {
    if (fds[2] < 0)
      return failed(token, Error(ErrorKind::resource_exhausted, "no descriptors are left"), EMFILE);
    if (!program_.empty()) return execute(token, text, fds);
    // Parsed only in the child: the parent has more to fork.
    pid_t pid = ::fork();
    if (pid == 0) return become_worker(text, fds);
    if (pid < 0) return failed(token, system_error(errno, "cannot fork a worker"), errno);
    started(token, pid);
  }

  void become_worker(std::string_view text, const int (&fds)[zygote::kFds]) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self_) ::_exit(127);
    ::dup2(fds[1], STDOUT_FILENO);
    ::dup2(fds[2], STDERR_FILENO);
    for (int fd : {fds[1], fds[2], socket_, ended_}) ::close(fd);
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
    auto start = WorkerStart::decode(text);
    if (!start) ::_exit(2);
    start->channel_fd = fds[0];
    if (start->set_devices) ::setenv("CUDA_VISIBLE_DEVICES", start->devices.c_str(), 1);
    start_ = std::move(*start);
  }

  void execute(std::uint64_t token, std::string_view text, const int (&fds)[zygote::kFds]) {
    auto start = WorkerStart::decode(text);
    if (!start) return failed(token, start.error(), EINVAL);
    start->channel_fd = STDERR_FILENO + 1;
    SpawnOptions options;
    options.executable = program_;
    options.arguments = arguments_;
    std::vector<std::string> more = {std::string(kRoleVariable) + "=worker",
                                     std::string(kWorkerVariable) + "=" + start->encode()};
    if (start->set_devices) more.push_back("CUDA_VISIBLE_DEVICES=" + start->devices);
    options.environment = overlay_environment(more, {});
    options.fds = {{fds[1], STDOUT_FILENO}, {fds[2], STDERR_FILENO}, {fds[0], start->channel_fd}};
    options.death_signal = SIGKILL;
    auto pid = spawn_process(options);
    if (!pid) return failed(token, pid.error(), 0);
    started(token, *pid);
  }

  void started(std::uint64_t token, pid_t pid) {
    children_.push_back(pid);
    Notice notice;
    notice.what = Notice::started;
    notice.pid = pid;
    notice.token = token;
    say(notice);
  }

  void failed(std::uint64_t token, const Error& error, int number) {
    Notice notice;
    notice.what = Notice::failed;
    notice.token = token;
    notice.number = number;
    notice.kind = static_cast<std::int32_t>(error.kind);
    say(notice, error.message);
  }

  void say(const Notice& notice, std::string_view text = {}) {
    char bytes[sizeof notice + 1024];
    std::memcpy(bytes, &notice, sizeof notice);
    std::size_t more = std::min<std::size_t>(text.size(), 1024);
    if (more > 0) std::memcpy(bytes + sizeof notice, text.data(), more);
    while (::send(socket_, bytes, sizeof notice + more, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
  }

  void kill_group(pid_t pid) {
    if (std::find(children_.begin(), children_.end(), pid) == children_.end()) return;
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);  // it may not have made its group yet
  }

  // Tells of each child that has ended, after the rest of its group was killed. What it is not parent of is
  // reaped silently.
  void reap() {
    signalfd_siginfo info;
    while (::read(ended_, &info, sizeof info) > 0) {
    }
    for (;;) {
      siginfo_t child{};
      if (::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 || child.si_pid == 0) return;
      auto at = std::find(children_.begin(), children_.end(), child.si_pid);
      // While it is not reaped its number names no other process or group.
      if (at != children_.end()) ::kill(-child.si_pid, SIGKILL);
      int status = 0;
      ::waitpid(child.si_pid, &status, 0);
      if (at == children_.end()) continue;
      *at = children_.back();
      children_.pop_back();
      Notice notice;
      notice.what = Notice::ended;
      notice.pid = child.si_pid;
      notice.number = status;
      say(notice);
    }
  }

  [[noreturn]] void end() {
    for (pid_t pid : children_) {
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
    }
    kill_children_except({});
    ::_exit(0);
  }

  void read_arguments() {
    std::ifstream in("/proc/self/cmdline");
    std::getline(in, program_arg0_, '\0');
    for (std::string argument; std::getline(in, argument, '\0');) arguments_.push_back(argument);
  }

  int socket_;
  std::string program_, program_arg0_;
  std::vector<std::string> arguments_;
  pid_t self_;
  int ended_ = -1;
  sigset_t mask_;
  std::vector<pid_t> children_;
  std::optional<WorkerStart> start_;
  alignas(8) char buffer_[zygote::kLongest];
};

}  // namespace

std::optional<WorkerStart> run_zygote(int socket, const std::string& program) {
  // On the heap of the zygote, so that a forked child's stack does not carry it.
  auto loop = std::make_unique<Zygote>(socket, program);
  return loop->run();
}

}  // namespace troupe
