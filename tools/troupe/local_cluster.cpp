#include "tools/troupe/local_cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/os/process.h"
#include "tools/troupe/command.h"

namespace troupe::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStartPatience = std::chrono::seconds(90);
constexpr auto kEndPatience = std::chrono::seconds(10);
constexpr int kLifeline = 3;
constexpr const char* kPrefix = "troupe-run-";

Token fresh_token() {
  auto token = Token::random();
  if (!token) throw Failed(token.error());
  return *token;
}

std::string temporary() {
  const char* given = std::getenv("TMPDIR");
  std::string folder = given != nullptr && *given == '/' ? given : "/tmp";
  return folder.size() < 40 ? folder : "/tmp";  // sockets lie below it, and their paths are short
}

// Folders of runs that were killed before they could tidy up.
void remove_abandoned() {
  std::error_code bad;
  auto now = std::filesystem::file_time_type::clock::now();
  for (std::filesystem::directory_iterator at(temporary(), bad), end; !bad && at != end; at.increment(bad)) {
    std::string name = at->path().filename().string();
    std::error_code gone;
    if (name.rfind(kPrefix, 0) != 0 || ::kill(std::atoi(name.c_str() + std::string(kPrefix).size()), 0) == 0)
      continue;
    if (now - at->last_write_time(gone) < std::chrono::minutes(2)) continue;
    UniqueFd lock(::open((at->path() / "lock").c_str(), O_RDWR | O_CLOEXEC));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(at->path(), gone);
  }
}

}  // namespace

LocalCluster::LocalCluster(int nodes, const std::vector<std::string>& node_arguments)
    : token_(fresh_token()) {
  remove_abandoned();
  folder_ = temporary() + "/" + kPrefix + std::to_string(::getpid()) + "-XXXXXX";
  if (::mkdtemp(folder_.data()) == nullptr)
    throw Failed(system_error(errno, "cannot make a folder in " + temporary()));
  try {
    lock_.reset(::open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_) throw Failed(system_error(errno, "cannot write to " + folder_));
    ::flock(lock_.get(), LOCK_EX);
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) throw Failed(system_error(errno, "cannot make a pipe"));
    lifeline_end_.reset(pipe[0]);
    lifeline_.reset(pipe[1]);
    members_.reserve(static_cast<std::size_t>(nodes) + 1);
    address_ = await_line(start("head", {"head"}), "head: listening on ");
    for (int i = 1; i <= nodes; ++i) {
      std::vector<std::string> arguments = {
          "node", "--head", address_, "--name", "n" + std::to_string(i), "--head-patience", "0"};
      arguments.insert(arguments.end(), node_arguments.begin(), node_arguments.end());
      start("node-" + std::to_string(i), std::move(arguments));
    }
    for (std::size_t i = 1; i < members_.size(); ++i) await_line(members_[i], "node: joined ");
  } catch (...) {
    end();
    throw;
  }
}

LocalCluster::~LocalCluster() { end(); }

LocalCluster::Member& LocalCluster::start(const std::string& name, std::vector<std::string> arguments) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw Failed(system_error(errno, "cannot make a pipe"));
  UniqueFd out(pipe[0]), out_end(pipe[1]);
  UniqueFd err(
      ::open((folder_ + "/" + name + ".err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnOptions options;
  options.executable = own_executable();
  options.arguments = {"troupe"};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.arguments.insert(options.arguments.end(), {"--lifeline", std::to_string(kLifeline)});
  options.environment =
      overlay_environment({"TROUPE_HOME=" + folder_, "TROUPE_TOKEN=" + token_.hex()}, {"TROUPE_HEAD"});
  options.fds = {{null.get(), 0}, {out_end.get(), 1}, {err.get(), 2}, {lifeline_end_.get(), kLifeline}};
  options.death_signal = SIGTERM;
  auto pid = spawn_process(options);
  if (!pid) throw Failed(pid.error());
  members_.push_back({name, *pid, std::move(out), ""});
  return members_.back();
}

std::string LocalCluster::await_line(Member& member, const std::string& start) {
  auto deadline = Clock::now() + kStartPatience;
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{member.out.get(), POLLIN, 0};
    int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    char bytes[512];
    ssize_t n = ready > 0 ? ::read(member.out.get(), bytes, sizeof bytes) : -1;
    if (ready == 0)
      throw Failed("the local " + member.name + " did not start in time" + last_words(member.name));
    if (n <= 0) throw Failed("the local " + member.name + " could not start" + last_words(member.name));
    member.line.append(bytes, static_cast<std::size_t>(n));
    auto at = member.line.find(start);
    auto end = at == member.line.npos ? at : member.line.find('\n', at);
    if (end != member.line.npos) return member.line.substr(at + start.size(), end - at - start.size());
  }
}

std::string LocalCluster::last_words(const std::string& name) const {
  std::ifstream in(folder_ + "/" + name + ".err");
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "" : ": " + last;
}

std::vector<pid_t> LocalCluster::pids() const {
  std::vector<pid_t> out;
  for (const auto& member : members_) {
    if (member.pid > 0) out.push_back(member.pid);
  }
  return out;
}

bool LocalCluster::ended(pid_t pid, int wait_status) {
  for (auto& member : members_) {
    if (member.pid != pid) continue;
    member.pid = 0;
    std::fprintf(stderr, "troupe run: the local %s %s%s\n", member.name.c_str(),
                 describe_exit(wait_status).c_str(), last_words(member.name).c_str());
    return true;
  }
  return false;
}

bool LocalCluster::can_go_on() const {
  bool head = false, node = false;
  for (const auto& member : members_) (member.name == "head" ? head : node) |= member.pid > 0;
  return head && node;
}

void LocalCluster::end() {
  for (pid_t pid : pids()) ::kill(pid, SIGTERM);
  lifeline_.reset();
  auto deadline = Clock::now() + kEndPatience;
  for (auto& member : members_) {
    // Its output ends when it does; nobody else holds that pipe.
    char bytes[512];
    while (member.pid > 0) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd wait{member.out.get(), POLLIN, 0};
      int ready = ::poll(&wait, 1, static_cast<int>(std::max<long long>(left, 0)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0 || ::read(member.out.get(), bytes, sizeof bytes) <= 0) {
        if (ready <= 0) ::kill(member.pid, SIGKILL);
        ::waitpid(member.pid, nullptr, 0);
        member.pid = 0;
      }
    }
  }
  kill_children_except({});
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace troupe::tools
