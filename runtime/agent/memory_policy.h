// Decides which worker has to end because of the memory it uses: one whose actors said how much they need
// and that uses more, or, when the machine itself has little left, the one that exceeds what it asked for by
// the most. Without it the system would kill whatever it likes, or swap.
//
// Pure: readings go in, verdicts come out. Owner: MemoryMonitor. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/error.h"

namespace troupe {

struct MemoryReading {
  // Bytes; `total` 0: not known.
  struct Machine {
    std::uint64_t total = 0, available = 0;
  };
  struct Worker {
    std::uint64_t process = 0;
    std::uint64_t used = 0;   // private memory of the process and its children
    std::uint64_t asked = 0;  // by its actors together
    bool limited = false;     // every actor in it asked for memory
  };
  Machine machine;
  std::vector<Worker> workers;
};

class MemoryPolicy {
 public:
  // Granted on top, for what is not the actors' own; a sanitizer's bookkeeping is large.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr std::uint64_t kRuntime = 512 << 20;
#else
  static constexpr std::uint64_t kRuntime = 32 << 20;
#endif
  static constexpr int kPressed = 2;  // readings in a row, before a worker pays for it
  static constexpr int kSettle = 8;   // readings after that, until what it had is free again

  struct Verdict {
    std::uint64_t process;
    Error why;  // resource_exhausted
  };
  // All workers above their own limit, or one when the machine runs out.
  std::vector<Verdict> judge(const MemoryReading& reading);

  // Less than this left of `total` is too little: 2 %, at least 64 MiB, at most 512 MiB.
  static std::uint64_t reserve(std::uint64_t total);

 private:
  int pressed_ = 0, settling_ = 0;
};

}  // namespace troupe
