#include "redis_servers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace troupe::test {
namespace {

constexpr const char* kMaster = "troupe";

int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ::bind(fd, reinterpret_cast<sockaddr*>(&at), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  ::close(fd);
  return ntohs(at.sin_port);
}

}  // namespace

RedisServer::RedisServer(Scene& scene, const std::string& name, Options options)
    : scene_(scene),
      folder_(scene.folder() + "/" + name),
      // Of this scene alone, so that a server of another test is never taken for this one.
      password_((options.sentinel ? "sentinel-" : "server-") +
                scene.folder().substr(scene.folder().size() - 6)),
      options_(std::move(options)) {
  std::filesystem::create_directories(folder_);
  // Somebody else may take the port before the server does.
  for (int tries = 0; tries < 20; ++tries) {
    port_ = free_port();
    if (launch()) return;
  }
  ADD_FAILURE() << "no redis-server starts: " << process_.seen;
}

bool RedisServer::launch() {
  std::string port = std::to_string(port_);
  std::string config = folder_ + "/redis.conf";
  // A sentinel writes what it has learnt into its file.
  if (!options_.sentinel || !std::filesystem::exists(config + "." + port)) {
    std::ofstream out(config);
    out << "port " << port << "\nbind 127.0.0.1\ndir " << folder_ << "\nlogfile " << folder_
        << "/log\nrequirepass " << password_ << "\n";
    if (!options_.sentinel)
      out << "masterauth " << password_ << "\nappendonly yes\nappendfsync always\nsave \"\"\n"
          << "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n";
    out << options_.extra << "\n";
    std::ofstream(config + "." + port) << "made";
  }
  // It renames itself, so that its scene does not find it: it ends with the test.
  std::vector<std::string> words{"/usr/bin/setpriv", "--pdeathsig", "KILL", "/usr/bin/env"};
  words.insert(words.end(), options_.environment.begin(), options_.environment.end());
  words.insert(words.end(), {"/usr/bin/redis-server", config});
  if (options_.sentinel) words.push_back("--sentinel");
  if (process_.input >= 0) ::close(process_.input), ::close(process_.output);
  process_ = scene_.start(words);
  int status = 0;
  bool ended = false;
  bool up = eventually(
      [&] {
        ended = ::waitpid(process_.pid, &status, WNOHANG) == process_.pid;
        return ended || answers();
      },
      60);
  if (ended) process_.pid = -1;
  return up && !ended;
}

void RedisServer::start() {
  // Connections of others may use the port for a moment.
  ASSERT_TRUE(eventually([&] { return launch(); })) << process_.seen;
}

void RedisServer::kill() {
  if (process_.pid <= 0) return;
  ::kill(process_.pid, SIGKILL);
  ::waitpid(process_.pid, nullptr, 0);
  process_.pid = -1;
}

void RedisServer::go_on() { ::kill(process_.pid, SIGCONT); }

std::string RedisServer::url() const {
  return "redis://:" + password_ + "@127.0.0.1:" + std::to_string(port_);
}

std::string RedisServer::ask(const std::vector<std::string>& command) {
  std::vector<std::string> words{
      "/usr/bin/timeout", "5", "/usr/bin/redis-cli", "-p", std::to_string(port_), "-a", password_,
      "--no-auth-warning"};
  words.insert(words.end(), command.begin(), command.end());
  return scene_.run(words).output;
}

bool RedisServer::answers() { return ask({"PING"}).find("PONG") != std::string::npos; }

RedisGroup::RedisGroup(Scene& scene) {
  servers.push_back(std::make_unique<RedisServer>(scene, "redis-0"));
  std::string port = std::to_string(servers[0]->port());
  for (int i = 1; i < 3; ++i) {
    servers.push_back(std::make_unique<RedisServer>(
        scene, "redis-" + std::to_string(i),
        RedisServer::Options{.extra = "replicaof 127.0.0.1 " + port, .environment = {}}));
  }
  std::string name = kMaster;
  std::string watch = "sentinel monitor " + name + " 127.0.0.1 " + port + " 2\nsentinel auth-pass " + name +
                      " " + servers[0]->password() + "\nsentinel sentinel-pass sentinel-" +
                      scene.folder().substr(scene.folder().size() - 6) +
                      "\nsentinel down-after-milliseconds " + name + " 1000\nsentinel failover-timeout " +
                      name + " 3000\nsentinel parallel-syncs " + name + " 2";
  for (int i = 0; i < 3; ++i) {
    sentinels.push_back(std::make_unique<RedisServer>(
        scene, "sentinel-" + std::to_string(i),
        RedisServer::Options{.extra = watch, .environment = {}, .sentinel = true}));
  }
  auto field = [](const std::string& lines, const std::string& key) {
    auto at = lines.find(key + "\n");
    auto from = at + key.size() + 1;
    return at == lines.npos ? "" : lines.substr(from, lines.find('\n', from) - from);
  };
  bool ready = eventually(
      [&] {
        std::string role = servers[0]->ask({"INFO", "replication"});
        if (role.find("slave0:") == role.npos || role.find("slave1:") == role.npos) return false;
        for (auto at = role.find("state="); at != role.npos; at = role.find("state=", at + 1))
          if (role.compare(at, 12, "state=online") != 0) return false;
        for (auto& sentinel : sentinels) {
          std::string seen = sentinel->ask({"SENTINEL", "MASTER", kMaster});
          if (field(seen, "num-slaves") != "2" || field(seen, "num-other-sentinels") != "2" ||
              field(seen, "flags") != "master")
            return false;
        }
        return true;
      },
      120);
  if (!ready) ADD_FAILURE() << "replicas and sentinels do not find each other";
}

std::string RedisGroup::url(int replicas) const {
  std::string text = "redis+sentinel://:" + servers[0]->password() + "@";
  for (auto& one : sentinels)
    text += (one == sentinels.front() ? "" : ",") + std::string("127.0.0.1:") + std::to_string(one->port());
  return text + "/" + kMaster + "?replicas=" + std::to_string(replicas) +
         "&sentinel_password=" + sentinels[0]->password();
}

RedisServer& RedisGroup::master() {
  std::string port;
  std::istringstream lines(sentinels[0]->ask({"SENTINEL", "get-master-addr-by-name", kMaster}));
  std::getline(lines, port);
  std::getline(lines, port);
  for (auto& one : servers)
    if (std::to_string(one->port()) == port) return *one;
  ADD_FAILURE() << "the sentinels name nobody: " << port;
  return *servers[0];
}

bool RedisGroup::failed_over_from(const RedisServer& old) {
  return eventually(
      [&] {
        RedisServer& now = master();
        return now.port() != old.port() && now.ask({"ROLE"}).rfind("master", 0) == 0;
      },
      120);
}

}  // namespace troupe::test
