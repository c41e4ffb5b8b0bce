// Real redis-servers for a test, each with a folder, a port of the kernel's choice and a password; alone, or
// as a master with replicas and sentinels. The scene outlives them.
#pragma once

#include <memory>
#include <vector>

#include "support.h"

namespace troupe::test {

class RedisServer {
 public:
  struct Options {
    std::string extra;                     // more lines of its configuration
    std::vector<std::string> environment;  // NAME=VALUE
    bool sentinel = false;
  };
  RedisServer(Scene& scene, const std::string& name, Options options);
  RedisServer(Scene& scene, const std::string& name) : RedisServer(scene, name, Options()) {}
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;

  void start();  // again, on the same port and data
  void kill();   // SIGKILL, and reaps it
  void stop() { stop_process(process_.pid); }
  void go_on();
  pid_t pid() const { return process_.pid; }
  int port() const { return port_; }
  std::string url() const;
  // The answer of redis-cli, one line for each element.
  std::string ask(const std::vector<std::string>& command);
  bool answers();

  const std::string& password() const { return password_; }

 private:
  bool launch();

  Scene& scene_;
  std::string folder_, password_;
  Options options_;
  int port_ = 0;
  Scene::Process process_;
};

// A master, two replicas and three sentinels that know each other.
class RedisGroup {
 public:
  explicit RedisGroup(Scene& scene);
  std::string url(int replicas) const;
  RedisServer& master();                              // by what the sentinels say
  std::vector<std::unique_ptr<RedisServer>> servers;  // the first one begins as the master
  std::vector<std::unique_ptr<RedisServer>> sentinels;
  // Waits until the sentinels name another one than `old`, which says that it is a master.
  bool failed_over_from(const RedisServer& old);
};

}  // namespace troupe::test
