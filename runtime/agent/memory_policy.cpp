#include "runtime/agent/memory_policy.h"

#include <algorithm>
#include <string>

namespace troupe {
namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::uint64_t excess(const MemoryReading::Worker& worker) {
  std::uint64_t granted = worker.asked + MemoryPolicy::kRuntime;
  return worker.used > granted ? worker.used - granted : 0;
}

Error above_limit(const MemoryReading::Worker& worker) {
  return Error(ErrorKind::resource_exhausted,
               "worker process " + std::to_string(worker.process) + " used " + mebibytes(worker.used) +
                   " of memory, and its actors had asked for " + mebibytes(worker.asked) +
                   ": ask for more with ActorOptions().memory(bytes), or use less");
}

Error machine_full(const MemoryReading::Worker& worker, const MemoryReading::Machine& machine) {
  return Error(ErrorKind::resource_exhausted,
               "the node has " + mebibytes(machine.available) + " of memory left of " +
                   mebibytes(machine.total) + "; worker process " + std::to_string(worker.process) +
                   ", which used " + mebibytes(worker.used) + " and had asked for " +
                   mebibytes(worker.asked) +
                   ", was ended: let actors ask for what they need with ActorOptions().memory(bytes), or "
                   "run fewer of them here");
}

}  // namespace

std::uint64_t MemoryPolicy::reserve(std::uint64_t total) {
  return std::clamp<std::uint64_t>(total / 50, 64 << 20, 512 << 20);
}

std::vector<MemoryPolicy::Verdict> MemoryPolicy::judge(const MemoryReading& reading) {
  std::vector<Verdict> out;
  const MemoryReading::Worker* worst = nullptr;
  for (const auto& worker : reading.workers) {
    if (worker.limited && excess(worker) > 0) out.push_back({worker.process, above_limit(worker)});
    if (excess(worker) > 0 && (worst == nullptr || excess(worker) > excess(*worst))) worst = &worker;
  }
  bool full = reading.machine.total > 0 && reading.machine.available < reserve(reading.machine.total);
  pressed_ = full ? pressed_ + 1 : 0;
  if (settling_ > 0) --settling_;
  if (!out.empty()) {
    settling_ = kSettle;
  } else if (worst != nullptr && pressed_ >= kPressed && settling_ == 0) {
    settling_ = kSettle;
    out.push_back({worst->process, machine_full(*worst, reading.machine)});
  }
  return out;
}

}  // namespace troupe
