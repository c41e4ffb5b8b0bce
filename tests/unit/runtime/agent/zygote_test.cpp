#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <map>

#include "core/control/loop.h"
#include "runtime/agent/launcher.h"
#include "runtime/worker/worker_start.h"
#include "tests/unit/runtime/agent/role.h"

namespace troupe {
namespace {

using test::this_program;

WorkerStart full_start() {
  WorkerStart start;
  start.process = 1ull << 40;
  start.job = 7;
  start.node = 3;
  start.node_name = "a node: with, signs\n";
  start.host_id = "host";
  start.channel_fd = 5;
  start.isolation = 1;
  start.lanes = 8;
  start.socket_dir = "/tmp/x";
  start.tcp_host = "::1";
  start.token_hex = std::string(64, 'a');
  start.set_devices = true;
  start.devices = "0,1";
  start.gpu_units = 5'000;
  return start;
}

TEST(WorkerStartTest, RoundTrip) {
  auto again = WorkerStart::decode(full_start().encode());
  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ(*again, full_start());
  auto plain = WorkerStart::decode(WorkerStart().encode());
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, WorkerStart());
}

TEST(WorkerStartTest, DamageIsRefused) {
  std::string good = full_start().encode();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(WorkerStart::decode(good.substr(0, size)));
  EXPECT_FALSE(WorkerStart::decode(good + "x"));
  EXPECT_FALSE(WorkerStart::decode("1:999999999999999999999:"));
  std::string other = good;
  other[2] = '9';
  auto wrong = WorkerStart::decode(other);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::mismatch);
}

// A zygote with some workers, as an agent sees it.
struct Nursery {
  ControlLoop loop;
  std::unique_ptr<Launcher> launcher;
  UniqueFd out, err;  // read ends of all workers' output
  UniqueFd out_in, err_in;
  std::map<std::uint64_t, UniqueFd> channels;
  std::map<std::uint64_t, pid_t> pids;
  std::map<pid_t, int> ended;
  std::vector<Error> failures;
  bool ready = false, gone = false;
  int threads = 0, zygote_status = 0;

  explicit Nursery(SpawnOptions options) {
    int pair[2];
    EXPECT_EQ(::pipe2(pair, O_CLOEXEC), 0);
    out.reset(pair[0]), out_in.reset(pair[1]);
    EXPECT_EQ(::pipe2(pair, O_CLOEXEC), 0);
    err.reset(pair[0]), err_in.reset(pair[1]);
    Launcher::Callbacks callbacks;
    callbacks.ready = [this] { ready = true; };
    callbacks.cannot_fork = [this](int n) { threads = n; };
    callbacks.started = [this](std::uint64_t token, pid_t pid) { pids[token] = pid; };
    callbacks.failed = [this](std::uint64_t, Error why) { failures.push_back(std::move(why)); };
    callbacks.ended = [this](pid_t pid, int status) { ended[pid] = status; };
    callbacks.gone = [this](int status) {
      gone = true;
      zygote_status = status;
    };
    auto started = Launcher::start(loop.io(), std::move(options), std::move(callbacks));
    EXPECT_TRUE(started) << started.error().describe();
    launcher = std::move(*started);
  }

  void until(const std::function<bool()>& condition) {
    while (!condition()) loop.io().run_one();
  }
  void launch(std::uint64_t token, bool devices = false) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    channels[token].reset(pair[0]);
    WorkerStart start;
    start.process = token;
    start.set_devices = devices;
    start.devices = devices ? "1,3" : "";
    launcher->launch(token, start, UniqueFd(pair[1]), UniqueFd(::dup(out_in.get())),
                     UniqueFd(::dup(err_in.get())));
  }
  // What the workers have written once `count` lines are there.
  std::string lines(int count) {
    std::string text;
    char c;
    while (count > 0 && ::read(out.get(), &c, 1) == 1) {
      text += c;
      count -= c == '\n';
    }
    return text;
  }
  // True when no process holds the output pipes any more.
  bool all_gone() {
    out_in.reset();
    err_in.reset();
    char rest[4096];
    while (::read(out.get(), rest, sizeof rest) > 0) {
    }
    while (::read(err.get(), rest, sizeof rest) > 0) {
    }
    return true;
  }
};

TEST(ZygoteTest, ForksWorkersAndTellsHowTheyEnd) {
  Nursery nursery(this_program("exit3"));
  nursery.until([&] { return nursery.ready || nursery.gone; });
  ASSERT_TRUE(nursery.ready || nursery.threads > 1);
  if (!nursery.ready) GTEST_SKIP() << "this build has threads before main";
  for (std::uint64_t token = 1; token <= 20; ++token) nursery.launch(token);
  nursery.until([&] { return nursery.ended.size() == 20; });
  EXPECT_EQ(nursery.pids.size(), 20u);
  for (auto [pid, status] : nursery.ended) EXPECT_EQ(describe_exit(status), "exited with status 3");
}

TEST(ZygoteTest, WorkersHaveChannelOutputDevicesAndACleanEnvironment) {
  Nursery nursery(this_program("devices"));
  nursery.until([&] { return nursery.ready || nursery.gone; });
  if (!nursery.ready) GTEST_SKIP() << "this build has threads before main";
  nursery.launch(5, true);
  EXPECT_EQ(nursery.lines(2), "devices 1,3\nworker 5 \n");
  nursery.channels.clear();
  EXPECT_EQ(nursery.lines(1), "channel ended\n");
  nursery.until([&] { return nursery.ended.size() == 1; });
}

TEST(ZygoteTest, KillTakesTheWholeGroup) {
  Nursery nursery(this_program("family"));
  nursery.until([&] { return nursery.ready || nursery.gone; });
  if (!nursery.ready) GTEST_SKIP() << "this build has threads before main";
  nursery.launch(1);
  EXPECT_EQ(nursery.lines(1), "family\n");
  nursery.until([&] { return nursery.pids.size() == 1; });
  pid_t pid = nursery.pids[1];
  nursery.launcher->kill(pid);
  nursery.until([&] { return nursery.ended.size() == 1; });
  EXPECT_EQ(describe_exit(nursery.ended[pid]), "was killed by signal 9 (SIGKILL)");
  // Zombies of the group last until the zygote, their new parent, has reaped them.
  while (::kill(-pid, 0) == 0) ::sched_yield();
}

TEST(ZygoteTest, NothingOutlivesTheAgent) {
  Nursery nursery(this_program("family"));
  nursery.until([&] { return nursery.ready || nursery.gone; });
  if (!nursery.ready) GTEST_SKIP() << "this build has threads before main";
  for (std::uint64_t token = 1; token <= 10; ++token) nursery.launch(token);
  nursery.lines(10);
  pid_t zygote = nursery.launcher->pid();
  nursery.launcher.reset();  // as the kernel does when the agent is killed
  EXPECT_TRUE(nursery.all_gone());
  int status = 0;
  EXPECT_EQ(::waitpid(zygote, &status, 0), zygote);
  EXPECT_EQ(describe_exit(status), "exited with status 0");
}

TEST(ZygoteTest, WorkersDieWithAKilledZygote) {
  Nursery nursery(this_program("wait"));
  nursery.until([&] { return nursery.ready || nursery.gone; });
  if (!nursery.ready) GTEST_SKIP() << "this build has threads before main";
  for (std::uint64_t token = 1; token <= 5; ++token) nursery.launch(token);
  nursery.lines(5);
  nursery.launcher->kill_zygote();
  nursery.until([&] { return nursery.gone; });
  EXPECT_TRUE(nursery.all_gone());
}

TEST(ZygoteTest, AProgramWithThreadsSaysSo) {
  Nursery nursery(this_program("threads"));
  nursery.until([&] { return nursery.gone; });
  EXPECT_FALSE(nursery.ready);
  EXPECT_GE(nursery.threads, 2);
  EXPECT_EQ(describe_exit(nursery.zygote_status), "exited with status 0");
}

TEST(ZygoteTest, ALauncherExecutesWorkers) {
  auto options = this_program("family");
  options.arguments.push_back(own_executable());
  options.environment.push_back(std::string(kLauncherVariable) + "=" + own_executable());
  Nursery nursery(options);
  nursery.until([&] { return nursery.ready; });
  for (std::uint64_t token = 1; token <= 3; ++token) nursery.launch(token);
  EXPECT_EQ(nursery.lines(3), "family\nfamily\nfamily\n");
  nursery.launcher->end();
  nursery.until([&] { return nursery.gone; });
  EXPECT_TRUE(nursery.all_gone());
}

TEST(ZygoteTest, AMissingProgramIsAnErrorOfTheLauncher) {
  auto options = this_program("wait");
  options.environment.push_back(std::string(kLauncherVariable) + "=/nowhere/at/all");
  Nursery nursery(options);
  nursery.until([&] { return nursery.ready; });
  nursery.launch(1);
  nursery.until([&] { return nursery.failures.size() == 1; });
  EXPECT_EQ(nursery.failures[0].kind, ErrorKind::not_found);
  EXPECT_NE(nursery.failures[0].message.find("/nowhere/at/all"), std::string::npos);
}

TEST(SpawnProcessTest, ErrorsNameTheStep) {
  SpawnOptions options;
  options.executable = "/nowhere/at/all";
  options.arguments = {"x"};
  auto missing = spawn_process(options);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("cannot execute /nowhere/at/all"), std::string::npos);
  options.executable = "/bin/true";
  options.directory = "/nowhere";
  auto folder = spawn_process(options);
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("(/nowhere)"), std::string::npos);
}

TEST(SpawnProcessTest, ProgramsAreFoundInPath) {
  EXPECT_TRUE(find_program("sh"));
  EXPECT_TRUE(find_program("/bin/sh"));
  EXPECT_FALSE(find_program("no-such-program-here"));
  EXPECT_FALSE(find_program("/etc/passwd"));
}

}  // namespace
}  // namespace troupe
