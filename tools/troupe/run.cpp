// troupe run PROGRAM ARGS…
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include "core/os/process.h"
#include "tools/troupe/head_client.h"
#include "tools/troupe/local_cluster.h"
#include "tools/troupe/resource_options.h"

namespace troupe::tools {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct Options {
  std::optional<std::string> head;
  int nodes = 1;
  bool nodes_given = false;
  bool local = false;
  ResourceOptions resources;
  std::vector<std::string> program;
};

struct Cluster {
  std::string address, token_hex;
};

// The cluster that the options, the environment or the cluster file name; none: start one. A cluster that was
// named on purpose must answer; one from the file that does not is of the past.
std::optional<Cluster> current_cluster(const Options& options) {
  if (options.local) return {};
  const char* named = std::getenv("TROUPE_HEAD");
  bool on_purpose = options.head || (named != nullptr && *named != 0);
  auto found = find_cluster(options.head);
  if (!found && !on_purpose) return {};
  if (!found) throw Failed(found.error());
  try {
    HeadClient client(options.head);
    client.wait(client.admin().statusRequest().send());
  } catch (const Failed&) {
    if (on_purpose) throw;
    return {};
  }
  if (options.nodes_given || options.resources.given()) {
    std::fprintf(
        stderr,
        "troupe run: using the cluster at %s, so --nodes and resources mean nothing; --local starts one\n",
        found->text().c_str());
  }
  return Cluster{found->text(), found->token.hex()};
}

// Signals meant for the program are taken in here and passed on.
UniqueFd take_signals(sigset_t& set) {
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int number : kForwarded) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

pid_t start_program(const Options& options, const std::string& path, const Cluster& cluster) {
  SpawnOptions program;
  program.executable = path;
  program.arguments = options.program;
  program.environment =
      overlay_environment({"TROUPE_HEAD=" + cluster.address, "TROUPE_TOKEN=" + cluster.token_hex}, {});
  program.new_group = false;  // it may read the terminal, whose keys reach it directly
  program.death_signal = SIGKILL;
  auto pid = spawn_process(program);
  if (!pid) throw Failed(pid.error());
  return *pid;
}

// How long a program may go on in a local cluster that can do nothing more for it.
constexpr auto kLastPatience = std::chrono::seconds(10);

// Until `main_child` has ended; its wait status. Of the others `on_other` hears, which says whether the child
// may go on: else it is ended when it has not done so by itself. When `lifeline` ends the child is killed.
int attend(int signals, int lifeline, pid_t main_child, const std::function<bool(pid_t, int)>& on_other) {
  bool may_go_on = true;
  std::optional<std::chrono::steady_clock::time_point> end;
  for (;;) {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == main_child) return status;
      if (!on_other(pid, status) && std::exchange(may_go_on, false))
        end = std::chrono::steady_clock::now() + kLastPatience;
    }
    int limit = -1;
    if (end) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - std::chrono::steady_clock::now());
      limit = static_cast<int>(std::max<long long>(left.count(), 0));
    }
    pollfd waits[2] = {{signals, POLLIN, 0}, {lifeline, POLLIN, 0}};
    int ready = ::poll(waits, 2, limit);
    if (ready == 0) {
      std::fprintf(stderr, "troupe run: the local cluster has ended: ending the program\n");
      ::kill(main_child, SIGTERM);
      end.reset();
    }
    if (ready <= 0) continue;
    if (waits[1].revents != 0) {
      ::kill(main_child, SIGKILL);
      lifeline = -1;
    }
    signalfd_siginfo info;
    while (::read(signals, &info, sizeof info) == sizeof info) {
      // What the terminal sends goes to its whole group already.
      if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL) {
        ::kill(main_child, static_cast<int>(info.ssi_signo));
      }
    }
  }
}

int exit_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

void end_if_interrupted(sigset_t set) {
  timespec now{};
  sigdelset(&set, SIGCHLD);
  if (::sigtimedwait(&set, nullptr, &now) > 0) throw Failed("interrupted");
}

// The part that does the work. It is the reaper of all that the program starts, and tidies up when `lifeline`
// ends.
int work(const Options& options, const std::string& path, std::optional<Cluster> cluster, UniqueFd lifeline) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set;
  UniqueFd signals = take_signals(set);
  std::optional<LocalCluster> local;
  if (!cluster) {
    local.emplace(options.nodes, options.resources.arguments());
    cluster = Cluster{local->address(), local->token().hex()};
  }
  end_if_interrupted(set);
  pid_t program = start_program(options, path, *cluster);
  int status = attend(signals.get(), lifeline.get(), program, [&](pid_t pid, int how) {
    return !local || !local->ended(pid, how) || local->can_go_on();
  });
  kill_children_except(local ? local->pids() : std::vector<pid_t>());
  return exit_status(status);
}

int run(Options options, const std::vector<std::string>& rest) {
  options.program = rest;
  if (!options.program.empty() && options.program[0].rfind("-", 0) == 0) {
    throw UsageError("unknown option " + options.program[0] + " before the program's name");
  }
  if (options.program.empty()) throw UsageError("which program? write: troupe run PROGRAM ARGS…");
  auto path = find_program(options.program[0]);
  if (!path) throw Failed(path.error());
  (void)options.resources.resources();  // bad ones are reported before anything starts
  auto cluster = current_cluster(options);
  // The work is done by a child, so that somebody is left to end everything if this process is killed.
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw Failed(system_error(errno, "cannot make a pipe"));
  UniqueFd watched(pipe[0]), held(pipe[1]);
  std::fflush(nullptr);
  pid_t child = ::fork();
  if (child < 0) throw Failed(system_error(errno, "cannot start a process"));
  if (child == 0) {
    held.reset();
    return work(options, *path, std::move(cluster), std::move(watched));
  }
  watched.reset();
  sigset_t set;
  UniqueFd signals = take_signals(set);
  return exit_status(attend(signals.get(), -1, child, [](pid_t, int) { return true; }));
}

}  // namespace

Run add_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.prefix_command();
  app.footer("PROGRAM ARGS… come last. It finds its cluster in TROUPE_HEAD and TROUPE_TOKEN.");
  add_head_option(app, options->head);
  auto* nodes = app.add_option("--nodes", options->nodes, "nodes of the cluster started for the program")
                    ->check(CLI::Range(1, 1000));
  app.add_flag("--local", options->local, "start a cluster even where there is one");
  options->resources.add_to(app);
  return [options, nodes, &app] {
    options->nodes_given = nodes->count() > 0;
    return run(*options, app.remaining());
  };
}

}  // namespace troupe::tools
