// Ends workers that use too much memory (memory_policy.h says which), four times a second.
//
// Owner: AgentState. Thread: the control thread. Without a probe (the simulator) it does nothing.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "core/control/executor.h"
#include "runtime/agent/memory_policy.h"
#include "runtime/agent/worker_process.h"

namespace troupe {

// Where readings come from; this machine's are in memory_use.h.
struct MemoryProbe {
  std::function<MemoryReading::Machine()> machine;
  std::function<std::uint64_t(pid_t)> process;
};

class MemoryMonitor {
 public:
  using Workers = std::unordered_map<std::uint64_t, std::shared_ptr<WorkerProcess>>;
  static constexpr auto kPeriod = 250 * kj::MILLISECONDS;

  MemoryMonitor(Executor& loop, MemoryProbe probe, const Workers& workers)
      : loop_(loop), probe_(std::move(probe)), workers_(workers) {}

  void start();  // once

 private:
  void look();
  MemoryReading read() const;

  Executor& loop_;
  MemoryProbe probe_;
  const Workers& workers_;
  MemoryPolicy policy_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for tasks on the loop
};

}  // namespace troupe
