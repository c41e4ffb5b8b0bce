// troupe head
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/base/log.h"
#include "core/config/cluster_file.h"
#include "core/config/find_cluster.h"
#include "core/config/home.h"
#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "core/control/rpc.h"
#include "gcs/head/head_server.h"
#include "gcs/store/redis_lease.h"
#include "gcs/store/redis_process.h"
#include "gcs/store/redis_store.h"
#include "tools/troupe/command.h"
#include "tools/troupe/lifeline.h"
#include "tools/troupe/standby.h"

namespace troupe::tools {
namespace {

constexpr auto kRedisCheck = 1 * kj::SECONDS;
constexpr auto kOwnershipCheck = 500 * kj::MILLISECONDS;
constexpr auto kLastPatience = 15 * kj::SECONDS;  // with a store that does not answer

struct Options {
  std::string host = "127.0.0.1", redis, state;
  std::uint16_t port = 0;
  int grace = 30;                // seconds
  int heartbeat_timeout = 1000;  // milliseconds
  bool standby = false;
  int lifeline = -1;
};

template <class T>
T value(Result<T> result) {
  if (!result) throw Failed(result.error());
  return std::move(*result);
}

// Two heads on one state folder would destroy it.
UniqueFd lock_state(const std::string& state) {
  UniqueFd lock(::open((state + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) throw Failed(system_error(errno, "cannot open " + state + "/lock"));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Failed("another head uses " + state +
                 ": end it with `troupe down`, or choose another folder with --state");
  }
  return lock;
}

void publish(const std::string& home, const ClusterFile& mine, bool took_over) {
  auto other = read_cluster_file(home);
  // Whoever holds the lock of the state folder has taken it over from a head that is gone, wherever that ran:
  // in an earlier container, say, whose processes cannot be seen from here. The same path outside of the home
  // may be another machine's folder.
  took_over |= other && other->state == mine.state && mine.state.rfind(home + "/", 0) == 0;
  if (!took_over && other && other->head_pid != mine.head_pid && other->head_may_run()) {
    std::fprintf(
        stderr, "head: %s/cluster names another head (process %d) and stays; reach this one with --head %s\n",
        home.c_str(), other->head_pid, mine.address.c_str());
    return;
  }
  if (auto written = write_cluster_file(home, mine); !written) throw Failed(written.error());
}

// Starts the embedded Redis again when it has ended.
kj::Promise<void> look_after(kj::Timer& timer, gcs::RedisProcess& redis) {
  return timer.afterDelay(kRedisCheck).then([&timer, &redis] {
    if (!redis.running()) {
      log(Level::warning, "redis-server has ended and is started again");
      if (auto again = redis.relaunch(); !again) log(Level::error, again.error().message);
    }
    return look_after(timer, redis);
  });
}

int head(const Options& options) {
  log_to("head");
  std::string folder = value(home());
  Token token = value(cluster_token(true));
  std::string state = options.state.empty() ? folder + "/head" : options.state;
  if (auto made = make_private_directory(state); !made) throw Failed(made.error());
  gcs::RedisAddress address;
  if (!options.redis.empty()) {
    auto parsed = gcs::parse_redis_url(options.redis);
    if (!parsed) throw UsageError(parsed.error());
    address = *parsed;
  }
  UniqueFd lock;
  if (options.standby) {
    std::printf("head: standing by\n");
    std::fflush(stdout);
    lock = wait_for_state(state, options.lifeline);
    if (!lock || (!options.redis.empty() && !wait_for_lease(address, options.lifeline))) return kOk;
    log(Level::warning, "the active head is gone; taking over");
  } else {
    lock = lock_state(state);
  }
  Address bound;
  // Before all else, so that a port in use leaves nothing to undo.
  UniqueFd listening = value(listen_on(Address{options.host, options.port, ""}, bound));

  std::unique_ptr<gcs::RedisProcess> redis;
  if (options.redis.empty()) {
    const char* binary = std::getenv("TROUPE_REDIS_SERVER");
    redis = value(gcs::RedisProcess::start(
        {state + "/redis", binary != nullptr ? binary : "redis-server", std::chrono::seconds(60)}));
    address = redis->address();
  }

  ControlLoop loop;
  gcs::RedisStore store(loop.io(), address);
  gcs::HeadServer::Options server_options;
  server_options.address = bound.text();
  server_options.version = kVersion;
  // On a store of its own nobody can take its place.
  if (!options.redis.empty()) server_options.ownership_check = kOwnershipCheck;
  server_options.heartbeat_timeout = options.heartbeat_timeout * kj::MILLISECONDS;
  server_options.core.grace = options.grace * 1000;
  gcs::HeadServer server(loop.timer(), store, server_options);
  auto force = kj::newPromiseAndFulfiller<void>();
  bool asked = false;
  EndRequests requests(loop, options.lifeline, [&](const std::string& why) {
    log(Level::info, "ending: " + why);
    if (std::exchange(asked, true)) return force.fulfiller->fulfill();
    server.shut_down();
    loop.spawn("ending", loop.timer().afterDelay(kLastPatience).then([&] { force.fulfiller->fulfill(); }));
  });
  try {
    std::optional<gcs::RedisLease>
        lease;  // a standby has it already: it must not run out while records are read
    if (!redis) lease.emplace(loop.io(), address).keep();
    auto started = server.start().then([] { return true; });
    auto ended = force.promise.then([] { return false; }).fork();
    if (!started.exclusiveJoin(ended.addBranch()).wait(loop.scope())) return kFailed;
    RpcListener listener(loop, std::move(listening), token, server.bootstrap());
    publish(folder, {bound.text(), ::getpid(), host_id(), state}, options.standby);
    std::printf("head: listening on %s\n", bound.text().c_str());
    std::fflush(stdout);
    auto until = server.shutdown_requested().exclusiveJoin(ended.addBranch().ignoreResult());
    if (redis) until = until.exclusiveJoin(look_after(loop.timer(), *redis));
    until.wait(loop.scope());
    // The last answers are still on their way.
    loop.timer().afterDelay(20 * kj::MILLISECONDS).wait(loop.scope());
  } catch (const kj::Exception& failure) {
    remove_cluster_file(folder, ::getpid());
    throw Failed(error_of(failure));
  }
  remove_cluster_file(folder, ::getpid());
  return kOk;
}

}  // namespace

Run add_head(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--host", options->host, "address to listen on");
  app.add_option("--port", options->port, "port to listen on; 0: the kernel chooses one");
  app.add_option("--redis", options->redis,
                 "a Redis to use, redis://[:password@]host[:port][/db] or "
                 "redis+sentinel://host[:port][,host[:port]...]/master; else one of its own");
  app.add_option("--state", options->state, "folder for its state; else $TROUPE_HOME/head");
  app.add_flag("--standby", options->standby,
               "wait until the active head of the same --state or --redis is gone, then take its place");
  app.add_option("--grace", options->grace,
                 "seconds that nodes and programs have to come back after a restart of the head")
      ->check(CLI::PositiveNumber);
  app.add_option("--heartbeat-timeout", options->heartbeat_timeout,
                 "milliseconds without a sign of life after which a node is lost")
      ->check(CLI::Range(100, 3'600'000));
  app.add_option("--lifeline", options->lifeline, "descriptor of a pipe whose end is this command's")
      ->group("");
  return [options] { return head(*options); };
}

}  // namespace troupe::tools
