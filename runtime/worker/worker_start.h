// What a worker is told when it starts, and how a process finds out that it is one.
//
// A worker is the driver's own executable with TROUPE_ROLE in its environment. It is either executed afresh
// (role "worker", parameters in TROUPE_WORKER) or forked from the job's zygote (role "zygote", parameters in
// a message).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace troupe {

struct WorkerStart {
  std::uint64_t process = 0, job = 0, node = 0;
  std::string node_name;
  std::string host_id;
  // A connected Unix stream socket. The agent is the RPC server on it (wire::WorkerHost is its bootstrap);
  // the worker makes RpcConnection(stream) on its end. Its end of stream means that the agent is gone.
  int channel_fd = -1;
  int isolation = 0;  // 0: a process of its own for one actor, 1: light, many actors
  int lanes = 1;
  std::string journals;      // folder of the durable actors' files
  std::string socket_dir;    // where the worker makes its Unix socket
  std::string tcp_host;      // where it takes links from other hosts; empty: nowhere
  std::string token_hex;     // of the cluster
  bool set_devices = false;  // CUDA_VISIBLE_DEVICES is set to `devices`, else left as it is
  std::string devices;
  std::int64_t gpu_units = 0;  // of each GPU it sees, its share: Resources::kOne is all of it

  std::string encode() const;  // text without NUL
  static Result<WorkerStart> decode(std::string_view text);
  bool operator==(const WorkerStart&) const = default;
};

// Names of the environment variables.
inline constexpr const char* kRoleVariable = "TROUPE_ROLE";      // "worker" or "zygote"
inline constexpr const char* kWorkerVariable = "TROUPE_WORKER";  // WorkerStart::encode
inline constexpr const char* kZygoteVariable = "TROUPE_ZYGOTE";  // number of the zygote's socket
inline constexpr const char* kLauncherVariable =
    "TROUPE_LAUNCH";  // set: start this program, with our arguments

// To be called once, by the thread that entered main, before it starts others. In a driver: nullopt. In a
// worker: its parameters. In a zygote it runs the zygote's loop, comes back only in forked children, with
// their parameters, and otherwise ends the process. The variables above and those that name the cluster are
// removed from the environment. Bad parameters end the process with status 2 and a message.
std::optional<WorkerStart> enter_worker_role();

}  // namespace troupe
