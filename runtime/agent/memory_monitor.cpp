#include "runtime/agent/memory_monitor.h"

#include "core/base/log.h"

namespace troupe {

void MemoryMonitor::start() {
  if (!probe_.machine) return;
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("watching memory", loop_.timer().afterDelay(kPeriod).then([this, alive] {
    if (alive.expired()) return;
    look();
    start();
  }));
}

MemoryReading MemoryMonitor::read() const {
  MemoryReading out;
  out.machine = probe_.machine();
  bool scarce = out.machine.available < 2 * MemoryPolicy::reserve(out.machine.total);
  for (const auto& [process, worker] : workers_) {
    if (worker->pid() <= 0 || worker->dying() || worker->over() || worker->actors.empty()) continue;
    MemoryReading::Worker one{process, 0, 0, true};
    for (const auto& [actor, hosted] : worker->actors) {
      one.asked += hosted.memory;
      one.limited &= hosted.memory > 0;
    }
    if (!one.limited && !scarce) continue;  // nobody will ask: not read
    one.used = probe_.process(worker->pid());
    out.workers.push_back(one);
  }
  return out;
}

void MemoryMonitor::look() {
  for (auto& verdict : policy_.judge(read())) {
    auto at = workers_.find(verdict.process);
    if (at == workers_.end()) continue;
    log(Level::warning, verdict.why.message);
    auto worker = at->second;  // kill() may take it out of the map
    worker->kill(std::move(verdict.why));
  }
}

}  // namespace troupe
