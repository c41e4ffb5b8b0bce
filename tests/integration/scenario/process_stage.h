// Scenario files against real processes: `troupe head`, `troupe node`, and probes as drivers.
#pragma once

#include <memory>

#include "tests/integration/cluster/support.h"
#include "tests/sim/scenario.h"

namespace troupe::test {

class ProcessStage final : public sim::Stage {
 public:
  ProcessStage();
  ~ProcessStage() noexcept(false) override;

  std::int64_t now() override;
  void wait_until(std::int64_t micros) override;
  Result<void> perform(const sim::Statement& what) override;
  bool holds(const sim::Statement& what) override;
  std::string situation() override;

 private:
  struct Machine {
    Scene::Process process;
    bool running = false;
    std::string cpu, gpu;
  };
  Result<void> on_head(const std::string& verb);
  Result<void> on_node(const sim::Statement& what);
  Result<void> on_driver(const sim::Statement& what);
  Result<void> on_actor(const sim::Statement& what);
  Result<void> start(const std::string& name, Machine& machine);
  void end(Scene::Process& process, int signal);
  std::string listing(const std::string& what);
  // The phase of the living actor of that name, or of the last; empty: none is known.
  std::string phase(const std::string& name);
  int workers();

  Scene scene_;
  std::int64_t begin_;
  std::unique_ptr<Scene::Process> head_;
  std::map<std::string, Machine> nodes_;
  std::map<std::string, Scene::Process> drivers_;
  std::map<std::string, std::string> spawners_;  // actor → driver
};

}  // namespace troupe::test
