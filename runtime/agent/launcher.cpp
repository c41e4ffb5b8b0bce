#include "runtime/agent/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <deque>

#include "runtime/worker/zygote.h"

namespace troupe {
namespace {

using zygote::Notice;
using zygote::Request;

constexpr int kNoticesPerTurn = 64;
constexpr int kZygoteSocket = 3;

struct Message {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// 0, or the errno of sendmsg.
int send_message(int socket, const Message& message) {
  iovec piece{const_cast<char*>(message.bytes.data()), message.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * zygote::kFds)] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!message.fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    auto* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * zygote::kFds);
    int fds[zygote::kFds];
    for (int i = 0; i < zygote::kFds; ++i) fds[i] = message.fds[static_cast<std::size_t>(i)].get();
    std::memcpy(CMSG_DATA(c), fds, sizeof fds);
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

struct Launcher::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, int fd, pid_t child, Callbacks to_call)
      : socket(io, fd), pid(child), callbacks(std::move(to_call)) {}

  asio::posix::stream_descriptor socket;
  pid_t pid;
  Callbacks callbacks;
  std::deque<Message> outbox;
  bool dropped = false;
  bool waits_for_room = false;

  void wait() {
    socket.async_wait(asio::posix::descriptor_base::wait_read,
                      [self = shared_from_this()](const std::error_code& bad) {
                        if (!self->dropped && !bad && self->receive()) self->wait();
                      });
  }

  bool receive() {
    for (int i = 0; i < kNoticesPerTurn && !dropped; ++i) {
      char bytes[sizeof(Notice) + 1024];
      ssize_t n = ::recv(socket.native_handle(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (n <= 0) {
        gone();
        return false;
      }
      Notice notice;
      if (static_cast<std::size_t>(n) < sizeof notice) continue;
      std::memcpy(&notice, bytes, sizeof notice);
      handle(notice, std::string(bytes + sizeof notice, static_cast<std::size_t>(n) - sizeof notice));
    }
    return !dropped;
  }

  void handle(const Notice& notice, std::string text) {
    switch (notice.what) {
      case Notice::ready:
        return callbacks.ready();
      case Notice::threads:
        return callbacks.cannot_fork(notice.number);
      case Notice::started:
        return callbacks.started(notice.token, notice.pid);
      case Notice::failed:
        return callbacks.failed(notice.token, Error(static_cast<ErrorKind>(notice.kind), std::move(text)));
      case Notice::ended:
        return callbacks.ended(notice.pid, notice.number);
    }
  }

  void gone() {
    // Its socket is closed, so it exits; a program that closed it and runs on is ended here.
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == 0) {
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
    }
    std::error_code ignored;
    socket.close(ignored);
    pid = 0;
    callbacks.gone(status);
  }

  void send(Message message) {
    outbox.push_back(std::move(message));
    if (outbox.size() == 1) flush();
  }

  void flush() {
    while (!outbox.empty() && socket.is_open()) {
      int number = send_message(socket.native_handle(), outbox.front());
      // ETOOMANYREFS: too many descriptors are on their way; they become fewer as the zygote reads.
      if (number == EAGAIN || number == ENOBUFS || number == ETOOMANYREFS) return wait_for_room();
      outbox.pop_front();  // any other error: the zygote is gone, as receive() will see
    }
  }

  void wait_for_room() {
    if (waits_for_room) return;
    waits_for_room = true;
    socket.async_wait(asio::posix::descriptor_base::wait_write,
                      [self = shared_from_this()](const std::error_code& bad) {
                        self->waits_for_room = false;
                        if (!self->dropped && !bad) self->flush();
                      });
  }
};

Result<std::unique_ptr<Launcher>> Launcher::start(asio::io_context& io, SpawnOptions options,
                                                  Callbacks callbacks) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return system_error(errno, "cannot make a socket for " + options.executable);
  }
  UniqueFd ours(pair[0]), theirs(pair[1]);
  options.environment.push_back(std::string(kRoleVariable) + "=zygote");
  options.environment.push_back(std::string(kZygoteVariable) + "=" + std::to_string(kZygoteSocket));
  options.fds.emplace_back(theirs.get(), kZygoteSocket);
  auto pid = spawn_process(options);
  if (!pid) return pid.error();
  auto state = std::make_shared<State>(io, ours.release(), *pid, std::move(callbacks));
  state->wait();
  return std::unique_ptr<Launcher>(new Launcher(std::move(state)));
}

Launcher::~Launcher() {
  state_->dropped = true;
  std::error_code ignored;
  state_->socket.close(ignored);
}

void Launcher::launch(std::uint64_t token, const WorkerStart& start, UniqueFd channel, UniqueFd out,
                      UniqueFd err) {
  Request request;
  request.what = Request::start;
  request.token = token;
  Message message;
  message.bytes.assign(reinterpret_cast<const char*>(&request), sizeof request);
  message.bytes += start.encode();
  message.fds.push_back(std::move(channel));
  message.fds.push_back(std::move(out));
  message.fds.push_back(std::move(err));
  state_->send(std::move(message));
}

void Launcher::kill(pid_t worker) {
  Request request;
  request.what = Request::kill;
  request.pid = worker;
  Message message;
  message.bytes.assign(reinterpret_cast<const char*>(&request), sizeof request);
  state_->send(std::move(message));
}

void Launcher::end() {
  if (state_->socket.is_open()) ::shutdown(state_->socket.native_handle(), SHUT_WR);
}

void Launcher::kill_zygote() {
  if (state_->pid > 0) ::kill(state_->pid, SIGKILL);
}

pid_t Launcher::pid() const { return state_->pid; }

}  // namespace troupe
