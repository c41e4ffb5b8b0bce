// The agent's servers: wire::Agent for the head, wire::WorkerHost for each worker. Both look at the agent's
// state through a weak pointer and fail their calls when it is gone.
//
// Owner: the peer that holds the capability. Thread: the control thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/protocol/cluster.capnp.h"

namespace troupe {

class AgentState;

class AgentServant final : public wire::Agent::Server {
 public:
  using Shutdown = std::function<void(const std::string& reason)>;
  // For the head whose number is `head`: how many were lost before it.
  AgentServant(std::weak_ptr<AgentState> state, std::uint64_t head, Shutdown shutdown)
      : state_(std::move(state)), head_(head), shutdown_(std::move(shutdown)) {}
  kj::Promise<void> startJob(StartJobContext context) override;
  kj::Promise<void> place(PlaceContext context) override;
  kj::Promise<void> destroy(DestroyContext context) override;
  kj::Promise<void> endJob(EndJobContext context) override;
  kj::Promise<void> shutdown(ShutdownContext context) override;
  kj::Promise<void> logs(LogsContext context) override;

 private:
  std::weak_ptr<AgentState> state_;
  std::uint64_t head_;
  Shutdown shutdown_;
};

class WorkerHostServant final : public wire::WorkerHost::Server {
 public:
  WorkerHostServant(std::weak_ptr<AgentState> state, std::uint64_t process)
      : state_(std::move(state)), process_(process) {}
  kj::Promise<void> register_(RegisterContext context) override;
  kj::Promise<void> report(ReportContext context) override;

 private:
  std::weak_ptr<AgentState> state_;
  std::uint64_t process_;
};

}  // namespace troupe
