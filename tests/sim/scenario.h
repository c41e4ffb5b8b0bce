// Scenario files: what happens to a cluster and what must follow, in a few words a line. One file runs in the
// simulator and against real processes; a Stage is either.
//
//   node NAME [cpu N] [gpu N]                      runs from the start
//   driver NAME
//   at TIME spawn ACTOR by DRIVER [cpu N] [gpu N] [restarts N] [node NAME] [light] [detached]
//   at TIME kill|crash actor ACTOR                 a request; SIGKILL to its worker
//   at TIME start|stop|kill|freeze|thaw node NAME  SIGTERM, SIGKILL, SIGSTOP, SIGCONT to its agent
//   at TIME start|kill|freeze|thaw head
//   at TIME kill driver NAME
//   expect actor ACTOR pending|alive|dead within TIME
//   expect node NAME alive|lost within TIME
//   expect workers N within TIME                   processes that host actors, on all nodes
//
// TIME is 2s or 500ms; those of `at` count from the start. Statements run in the order of the file, each at
// its time or, if that is past, at once. "#" begins a comment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace troupe::sim {

struct Statement {
  int line = 0;
  std::string text;  // as written, for messages
  std::string verb;  // node, driver, spawn, kill, crash, start, stop, freeze, thaw, expect
  std::string kind;  // actor, node, head, driver, workers
  std::string name;
  std::string state;        // of an expectation; the number of workers
  std::int64_t micros = 0;  // at, or within
  std::map<std::string, std::string> options;

  double number(const std::string& option) const;  // 0 when absent
  bool has(const std::string& option) const { return options.count(option) > 0; }
};
using Scenario = std::vector<Statement>;

// invalid_argument names the line and what is wrong with it.
Result<Scenario> parse_scenario(const std::string& text);
Result<Scenario> read_scenario(const std::string& path);

class Stage {
 public:
  virtual ~Stage() noexcept(false) = default;
  virtual std::int64_t now() = 0;  // microseconds since the start
  virtual void wait_until(std::int64_t micros) = 0;
  virtual Result<void> perform(const Statement& statement) = 0;
  virtual bool holds(const Statement& expectation) = 0;
  virtual std::string situation() = 0;  // for messages
};

// The first statement that fails is the error.
Result<void> play(const Scenario& scenario, Stage& stage);

}  // namespace troupe::sim
