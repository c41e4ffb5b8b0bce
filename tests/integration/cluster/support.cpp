#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

extern char** environ;

namespace troupe::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kMark = "TROUPE_TEST_SCENE";

}  // namespace

std::string bin(const std::string& name) { return std::string(TROUPE_BIN_DIR) + "/" + name; }

void stop_process(pid_t pid) {
  ::kill(pid, SIGSTOP);
  eventually([pid] {
    for (auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
      std::ifstream stat(task.path() / "stat");
      std::string line;
      std::getline(stat, line);
      auto name_end = line.rfind(')');
      if (name_end != line.npos && line.compare(name_end, 3, ") T") != 0) return false;
    }
    return true;
  });
}

bool eventually(const std::function<bool()>& condition, int seconds) {
  auto end = Clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

Scene::Scene() {
  char name[] = "/tmp/troupe-test-XXXXXX";
  folder_ = ::mkdtemp(name);
  environment_["TROUPE_HOME"] = folder_ + "/home";
  environment_[kMark] = folder_;
  // Local clusters make their folders here, where they are found and removed.
  environment_["TMPDIR"] = folder_;
}

Scene::~Scene() {
  for (pid_t pid : processes()) ::kill(pid, SIGKILL);
  all_gone(10);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Scene::Process Scene::start(std::vector<std::string> arguments) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    std::string name = text.substr(0, text.find('='));
    if (!environment_.count(name) && name.rfind("TROUPE_", 0) != 0) variables.push_back(text);
  }
  for (auto& [name, value] : environment_) variables.push_back(name + "=" + value);
  std::vector<char*> args, env;
  for (auto& one : arguments) args.push_back(one.data());
  for (auto& one : variables) env.push_back(one.data());
  args.push_back(nullptr);
  env.push_back(nullptr);
  Process process;
  process.pid = ::fork();
  if (process.pid == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(out[1], 2);
    ::execve(args[0], args.data(), env.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  process.input = in[1];
  process.output = out[0];
  return process;
}

bool Scene::Process::wait_for(const std::string& text, int seconds) {
  auto end = Clock::now() + std::chrono::seconds(seconds);
  while (text.empty() || seen.find(text) == seen.npos) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd fd{output, POLLIN, 0};
    if (::poll(&fd, 1, static_cast<int>(left)) <= 0) continue;
    char buffer[4096];
    ssize_t n = ::read(output, buffer, sizeof buffer);
    if (n <= 0) return false;
    seen.append(buffer, static_cast<std::size_t>(n));
  }
  return true;
}

void Scene::Process::write(const std::string& text) {
  pollfd fd{input, POLLOUT, 0};
  if (::poll(&fd, 1, 0) > 0 && (fd.revents & POLLERR) != 0) return;  // it has ended
  if (::write(input, text.data(), text.size()) < 0) return;
}

Outcome Scene::Process::finish(int seconds) {
  if (input >= 0) ::close(input);
  input = -1;
  wait_for("", seconds);  // to the end of its output
  Outcome outcome;
  int status = 0;
  bool ended = eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, seconds);
  if (!ended) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    seen += "\n[the test gave up on it]";
  }
  ::close(output);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.output = seen;
  return outcome;
}

Outcome Scene::run(std::vector<std::string> arguments, int seconds) {
  return start(std::move(arguments)).finish(seconds);
}

std::vector<pid_t> Scene::processes() const {
  std::vector<pid_t> found;
  std::string mark = std::string(kMark) + "=" + folder_;
  DIR* proc = ::opendir("/proc");
  while (dirent* entry = ::readdir(proc)) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    std::ifstream file(std::string("/proc/") + entry->d_name + "/environ", std::ios::binary);
    bool ours = false;
    for (std::string entry; std::getline(file, entry, '\0');) ours |= entry == mark;
    if (!ours) continue;
    std::ifstream stat(std::string("/proc/") + entry->d_name + "/stat");
    std::string line;
    std::getline(stat, line);
    auto close = line.rfind(')');
    if (close != line.npos && close + 2 < line.size() && line[close + 2] == 'Z') continue;
    found.push_back(std::atoi(entry->d_name));
  }
  ::closedir(proc);
  return found;
}

bool Scene::all_gone(int seconds) const {
  return eventually([&] { return processes().empty(); }, seconds);
}

std::string Scene::describe_processes() const {
  std::string text;
  for (pid_t pid : processes()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
    std::string line;
    for (std::string word; std::getline(file, word, '\0');) line += word + " ";
    text += std::to_string(pid) + " " + line + "\n";
  }
  return text;
}

}  // namespace troupe::test
