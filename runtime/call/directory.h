// What lanes ask of the control plane. Implemented by the process's control thread (runtime/process); answers
// come back as tasks on the lane that asked. All members may be called by any thread and return at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/link/link.h"

namespace troupe {

class Lane;

// A lane of some process, where calls for the actors on it go.
struct Place {
  ProcessId process;
  std::uint16_t lane = 0;
  NodeId node;
  std::string host_id, unix_path, tcp_host;
  std::uint16_t tcp_port = 0;
  std::int32_t pid = 0;
};

enum class Phase : std::uint8_t { pending, starting, alive, restarting, dead };

struct ActorNews {
  ActorId actor;
  std::uint32_t incarnation = 0;
  Phase phase = Phase::pending;
  bool infeasible = false;
  bool durable = false;
  std::shared_ptr<const Place> place;    // when alive
  std::shared_ptr<const Error> failure;  // of the incarnation that ended, or why it cannot be placed
  std::string class_name;
};

class Directory {
 public:
  virtual ~Directory() = default;

  // Answers with lane.routes().learn(news) when the actor is alive with an incarnation > `after`, dead, or
  // known to be infeasible; or with learn_failed when the control plane cannot tell within its bound.
  virtual void resolve(ActorId actor, std::uint32_t after, Lane& lane) = 0;
  // Answers with lane.routes().linked(place, link or error).
  virtual void connect(std::shared_ptr<const Place> place, Lane& lane) = 0;

  // A caller here has got the error that says that the actor is dead.
  virtual void observed(ActorId) {}

  virtual ProcessId self() const = 0;
  virtual Lane* lane_at(std::uint16_t index) = 0;  // of this process, null when there is none
};

}  // namespace troupe
