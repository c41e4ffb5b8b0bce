// troupe node
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "core/base/log.h"
#include "core/config/amounts.h"
#include "core/config/head_connection.h"
#include "core/config/home.h"
#include "core/control/kj_error.h"
#include "core/control/rpc.h"
#include "runtime/agent/memory_use.h"
#include "runtime/agent/node_agent.h"
#include "tools/troupe/head_client.h"
#include "tools/troupe/lifeline.h"
#include "tools/troupe/resource_options.h"

namespace troupe::tools {
namespace {

constexpr auto kPatience = 60 * kj::SECONDS;
constexpr auto kFirstRetry = 50 * kj::MILLISECONDS;
constexpr auto kSlowestRetry = 1 * kj::SECONDS;
constexpr std::size_t kOldStates = 8;
constexpr std::uint64_t kDefaultObjectDisk = std::uint64_t{64} << 30;

// 30 % of the machine's memory: it is taken as objects come.
std::uint64_t default_object_memory() { return machine_memory().total / 10 * 3; }

struct Options {
  std::optional<std::string> head;
  std::string name, host = "127.0.0.1", state;
  ResourceOptions resources;
  int head_patience = 600;  // seconds
  int lifeline = -1;
};

// Tries until the head has taken the node in; errors that waiting does not mend end it at once.
kj::Promise<void> join_patiently(ControlLoop& loop, const ClusterLocation& cluster, NodeAgent& agent,
                                 kj::TimePoint deadline, kj::Duration pause) {
  return connect_to_head(loop, cluster)
      .then([&agent](kj::Own<RpcConnection> head) { return agent.join(kj::mv(head)); })
      .catch_([&loop, &cluster, &agent, deadline, pause](kj::Exception&& failure) -> kj::Promise<void> {
        bool passes = error_of(failure).kind == ErrorKind::unavailable;
        if (!passes || loop.timer().now() + pause > deadline) return kj::mv(failure);
        return loop.timer().afterDelay(pause).then([&loop, &cluster, &agent, deadline, pause] {
          return join_patiently(loop, cluster, agent, deadline,
                                std::min<kj::Duration>(pause * 2, kSlowestRetry));
        });
      });
}

// Held by a node while it runs; nullopt: another one holds it. The home may be shared by machines, whose
// processes cannot be seen from here, so the lock tells which nodes run.
std::optional<UniqueFd> lock_state(const std::string& state) {
  UniqueFd lock(::open((state + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) throw Failed(system_error(errno, "cannot open " + state + "/lock"));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

bool has_ended(const std::filesystem::path& state) {
  int pid = std::atoi(state.extension().string().substr(1).c_str());
  if (pid <= 0 || ::kill(pid, 0) == 0)
    return false;  // it runs, or its number is taken: the next one will see
  UniqueFd lock(::open((state / "lock").c_str(), O_RDWR | O_CLOEXEC));
  return !lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

// $TROUPE_HOME/nodes/NAME.PID; of nodes that have ended only the newest are kept, for their logs. What a
// killed one could not remove is removed here.
std::string default_state(const std::string& name) {
  auto folder = home();
  if (!folder) throw Failed(folder.error());
  std::string all = *folder + "/nodes";
  if (auto made = make_private_directory(all); !made) throw Failed(made.error());
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> ended;
  std::error_code bad;
  for (std::filesystem::directory_iterator at(all, bad), end; !bad && at != end; at.increment(bad)) {
    std::error_code gone;
    if (!has_ended(at->path())) continue;
    ended.emplace_back(at->last_write_time(gone), at->path());
    std::filesystem::remove_all(at->path() / "sockets", gone);
  }
  std::sort(ended.rbegin(), ended.rend());
  for (std::size_t i = kOldStates; i < ended.size(); ++i) std::filesystem::remove_all(ended[i].second, bad);
  return all + "/" + (name.empty() ? "node" : name) + "." + std::to_string(::getpid());
}

// Each worker takes three descriptors of the agent.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 16);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t bytes_of(const char* option, const std::optional<std::string>& text, std::uint64_t otherwise) {
  if (!text) return otherwise;
  auto bytes = parse_bytes(*text);
  if (!bytes) throw UsageError(std::string(option) + ": " + bytes.error().message);
  return static_cast<std::uint64_t>(*bytes);
}

int node(const Options& options) {
  if (options.name.find_first_of("/: \n") != std::string::npos) {
    throw UsageError("--name: a node's name has no blanks, '/' or ':'");
  }
  Resources resources = options.resources.resources();
  auto cluster = find_cluster(options.head);
  if (!cluster) throw Failed(cluster.error());
  NodeAgent::Options agent_options(cluster->token);
  agent_options.name = options.name;
  agent_options.tcp_host = options.host;
  agent_options.resources = std::move(resources);
  agent_options.state = options.state.empty() ? default_state(options.name) : options.state;
  agent_options.reaps_orphans = true;
  agent_options.object_memory =
      bytes_of("--object-memory", options.resources.object_memory, default_object_memory());
  agent_options.object_disk = bytes_of("--object-disk", options.resources.object_disk, kDefaultObjectDisk);
  if (auto made = make_private_directory(agent_options.state); !made) throw Failed(made.error());
  auto lock = lock_state(agent_options.state);
  if (!lock)
    throw Failed("another node uses " + agent_options.state + ": choose another folder with --state");
  log_to(options.name.empty() ? "node" : "node " + options.name);
  raise_descriptor_limit();

  ControlLoop loop;
  agent_options.head_patience = options.head_patience * kj::SECONDS;
  if (options.head_patience > 0) {
    agent_options.reconnect = [&loop, head = options.head] { return find_head(loop, head); };
  }
  NodeAgent agent(loop, std::move(agent_options));
  auto stopped = kj::newPromiseAndFulfiller<bool>();
  bool joined = false;
  EndRequests requests(loop, options.lifeline, [&](const std::string& why) {
    if (joined)
      agent.stop(why);
    else
      stopped.fulfiller->fulfill(false);
  });
  try {
    auto deadline = loop.timer().now() + kPatience;
    auto taken_in = join_patiently(loop, *cluster, agent, deadline, kFirstRetry).then([] { return true; });
    if (!taken_in.exclusiveJoin(kj::mv(stopped.promise)).wait(loop.scope())) return kOk;
    joined = true;
    std::printf("node: joined %s as %s\n", cluster->text().c_str(), agent.name().c_str());
    std::fflush(stdout);
    agent.ended().wait(loop.scope());
    loop.timer().afterDelay(10 * kj::MILLISECONDS).wait(loop.scope());
  } catch (const kj::Exception& failure) {
    throw Failed(error_of(failure));
  }
  return kOk;
}

}  // namespace

Run add_node(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_head_option(app, options->head);
  app.add_option("--name", options->name, "the node's name in the cluster; else the head chooses one");
  options->resources.add_to(app);
  app.add_option("--host", options->host, "address at which its workers take calls from other machines");
  app.add_option("--state", options->state, "folder for logs and sockets; else one below $TROUPE_HOME/nodes");
  app.add_option("--head-patience", options->head_patience,
                 "seconds without a head after which the node ends; 0: it ends with its head")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--lifeline", options->lifeline, "descriptor of a pipe whose end is this command's")
      ->group("");
  return [options] { return node(*options); };
}

}  // namespace troupe::tools
