// troupe run PROGRAM ARGS…
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

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
        found->address.text().c_str());
  }
  return Cluster{found->address.text(), found->token.hex()};
}

// Signals meant for the program are taken in here and passed on.
UniqueFd take_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int number : kForwarded) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC));
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

// Until the program has ended; its wait status.
int attend(int signals, pid_t program, LocalCluster* local) {
  for (;;) {
    signalfd_siginfo info;
    if (::read(signals, &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo != SIGCHLD) {
      // What the terminal sends goes to its whole group already.
      if (info.ssi_code != SI_KERNEL) ::kill(program, static_cast<int>(info.ssi_signo));
      continue;
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == program) return status;
      if (local != nullptr) local->ended(pid, status);
    }
  }
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
  auto current = current_cluster(options);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the program leaves behind ends with this command
  UniqueFd signals = take_signals();
  std::optional<LocalCluster> local;
  if (!current) {
    local.emplace(options.nodes, options.resources.arguments());
    current = Cluster{local->address(), local->token().hex()};
  }
  pid_t program = start_program(options, *path, *current);
  int status = attend(signals.get(), program, local ? &*local : nullptr);
  kill_children_except(local ? local->pids() : std::vector<pid_t>());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
