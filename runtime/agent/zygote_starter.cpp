#include "runtime/agent/zygote_starter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>

#include "core/control/stream.h"
#include "runtime/agent/launcher.h"
#include "runtime/agent/line_reader.h"

namespace troupe {
namespace {

constexpr auto kReap = 10 * kj::MILLISECONDS;

struct Pipe {
  UniqueFd reads, writes;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error(errno, "cannot make a pipe for a worker's output");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

class PipeLines final : public Lines {
 public:
  PipeLines(asio::io_context& io, UniqueFd pipe) : io_(io), pipe_(std::move(pipe)) {}
  void start(Line on_line, End on_end) override {
    reader_ = std::make_unique<LineReader>(io_, std::move(pipe_), std::move(on_line), std::move(on_end));
  }
  void drain() override {
    if (reader_) reader_->drain();
  }

 private:
  asio::io_context& io_;
  UniqueFd pipe_;
  std::unique_ptr<LineReader> reader_;
};

class ZygoteStarter final : public Starter {
 public:
  explicit ZygoteStarter(ControlLoop& loop) : loop_(loop) {}

  Result<void> begin(SpawnOptions program, Callbacks to_call) {
    auto out = make_pipe();
    auto err = make_pipe();
    UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!out) return out.error();
    if (!err) return err.error();
    program.fds = {{null.get(), 0}, {out->writes.get(), 1}, {err->writes.get(), 2}};
    Launcher::Callbacks callbacks{std::move(to_call.ready),   std::move(to_call.cannot_fork),
                                  std::move(to_call.started), std::move(to_call.failed),
                                  std::move(to_call.ended),   std::move(to_call.gone)};
    auto started = Launcher::start(loop_.io(), std::move(program), std::move(callbacks));
    if (!started) return started.error();
    launcher_ = std::move(*started);
    auto reader = [&](UniqueFd pipe, bool is_error) {
      return std::make_unique<LineReader>(
          loop_.io(), std::move(pipe),
          [line = to_call.line, is_error](std::string_view text) { line(text, is_error); }, nullptr);
    };
    out_ = reader(std::move(out->reads), false);
    err_ = reader(std::move(err->reads), true);
    return {};
  }

  Result<Ends> launch(std::uint64_t token, const WorkerStart& start) override {
    auto out = make_pipe();
    auto err = make_pipe();
    int pair[2] = {-1, -1};
    bool paired = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
    int number = errno;
    UniqueFd ours(pair[0]), theirs(pair[1]);
    if (!out) return out.error();
    if (!err) return err.error();
    if (!paired) return system_error(number, "cannot make a socket for a worker");
    auto channel = kj::heap<SocketStream>(loop_, std::move(ours));
    channel->read_ahead();
    launcher_->launch(token, start, std::move(theirs), std::move(out->writes), std::move(err->writes));
    return Ends{kj::mv(channel), std::make_unique<PipeLines>(loop_.io(), std::move(out->reads)),
                std::make_unique<PipeLines>(loop_.io(), std::move(err->reads))};
  }

  void kill(pid_t worker) override { launcher_->kill(worker); }
  void end() override { launcher_->end(); }
  void kill_parent() override { launcher_->kill_zygote(); }
  void drain() override {
    out_->drain();
    err_->drain();
  }
  // The parent is gone, so its children were killed with it; this process may have inherited them.
  kj::Promise<int> kill_orphan(pid_t worker) override {
    ::kill(-worker, SIGKILL);
    return reap(worker);
  }

 private:
  kj::Promise<int> reap(pid_t worker) {
    int status = SIGKILL;
    if (::waitpid(worker, &status, WNOHANG) != 0) return status;  // or it is not this process's
    return loop_.timer().afterDelay(kReap).then([this, worker] { return reap(worker); });
  }

  ControlLoop& loop_;
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<LineReader> out_, err_;
};

}  // namespace

Starter::Factory zygotes(ControlLoop& loop) {
  return [&loop](SpawnOptions program, Starter::Callbacks callbacks) -> Result<std::unique_ptr<Starter>> {
    auto starter = std::make_unique<ZygoteStarter>(loop);
    auto begun = starter->begin(std::move(program), std::move(callbacks));
    if (!begun) return begun.error();
    return std::unique_ptr<Starter>(std::move(starter));
  };
}

}  // namespace troupe
