// A head and nodes of its own for one program: children in a private folder with a token of their own, which
// end with this process however it ends.
//
// Owner: the run command. Thread: main, with SIGCHLD blocked. Failures to start are thrown as Failed, with
// nothing left.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/auth/token.h"
#include "core/os/fd.h"

namespace troupe::tools {

class LocalCluster {
 public:
  // Returns when all nodes have joined.
  LocalCluster(int nodes, const std::vector<std::string>& node_arguments);
  ~LocalCluster();  // ends it and removes its folder
  LocalCluster(const LocalCluster&) = delete;

  const std::string& address() const { return address_; }
  const Token& token() const { return token_; }
  std::vector<pid_t> pids() const;
  // Called for each child that this process has reaped. True when it was one of ours, which should not end
  // yet.
  bool ended(pid_t pid, int wait_status);
  bool can_go_on() const;  // there are a head and a node

 private:
  struct Member {
    std::string name;
    pid_t pid;
    UniqueFd out;
    std::string line;  // what it has printed so far
  };
  Member& start(const std::string& name, std::vector<std::string> arguments);
  std::string await_line(Member& member, const std::string& start);
  std::string last_words(const std::string& name) const;
  void end();

  Token token_;
  std::string folder_, address_;
  UniqueFd lock_, lifeline_, lifeline_end_;
  std::vector<Member> members_;
};

}  // namespace troupe::tools
