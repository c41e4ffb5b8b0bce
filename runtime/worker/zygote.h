// The zygote: a job's executable stopped in its worker role while it has one thread, which forks workers on
// demand; or, as a launcher, the agent's executable that executes a program for each worker. Either is the
// parent of its workers and outlives its agent just long enough to kill them.
//
// Messages on a SOCK_SEQPACKET socket. Agent to zygote: Request + WorkerStart::encode, with the descriptors
// channel, stdout, stderr. Zygote to agent: Notice (+ text of a failure). End of the socket means: kill all
// children with their groups, and whatever they left behind, reap them, exit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/worker/worker_start.h"

namespace troupe::zygote {

inline constexpr std::size_t kLongest = 16 << 10;  // message
inline constexpr int kFds = 3;

struct Request {
  enum What : std::uint32_t { start, kill } what = start;
  std::int32_t pid = 0;     // kill: a worker's, with its group
  std::uint64_t token = 0;  // start: comes back in the answer
};

struct Notice {
  enum What : std::uint32_t { ready, threads, started, failed, ended } what = ready;
  std::int32_t pid = 0;     // started, ended
  std::uint64_t token = 0;  // started, failed
  std::int32_t number = 0;  // threads: how many; failed: errno; ended: wait status
  std::int32_t kind = 0;    // failed: ErrorKind; a text follows
};

}  // namespace troupe::zygote

namespace troupe {

// Runs the loop on `socket`. With a program: starts workers by executing it with this process's arguments
// from the second on; otherwise by forking, and returns in each child. Never returns in the zygote itself.
std::optional<WorkerStart> run_zygote(int socket, const std::string& program);

}  // namespace troupe
