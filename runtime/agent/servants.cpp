#include "runtime/agent/servants.h"

#include "core/control/kj_error.h"
#include "runtime/agent/agent_state.h"

namespace troupe {
namespace {

constexpr std::uint32_t kMostLines = 100'000;

std::shared_ptr<AgentState> locked(const std::weak_ptr<AgentState>& weak) {
  auto state = weak.lock();
  if (!state) kj::throwFatalException(kj_exception(Error(ErrorKind::unavailable, "the node is ending")));
  return state;
}

std::string text(capnp::Text::Reader from) { return std::string(from.cStr(), from.size()); }

}  // namespace

kj::Promise<void> AgentServant::startJob(StartJobContext context) {
  auto info = context.getParams().getInfo();
  JobDescription job;
  job.id = info.getJob();
  job.name = text(info.getName());
  job.executable = text(info.getExecutable());
  job.directory = text(info.getDirectory());
  job.fingerprint = info.getFingerprint();
  for (auto argument : info.getArguments()) job.arguments.push_back(text(argument));
  for (auto variable : info.getEnvironment()) job.environment.push_back(text(variable));
  return locked(state_)->in_order(head_, [this, job = std::move(job)]() mutable {
    locked(state_)->start_job(std::move(job));
    return kj::Promise<void>(kj::READY_NOW);
  });
}

kj::Promise<void> AgentServant::place(PlaceContext context) {
  return locked(state_)->in_order(head_, [this, context]() mutable {
    locked(state_)->place(context.getParams().getPlacements());
    return kj::Promise<void>(kj::READY_NOW);
  });
}

kj::Promise<void> AgentServant::destroy(DestroyContext context) {
  return locked(state_)->in_order(
      head_, [this, context]() mutable { return locked(state_)->destroy(context.getParams().getActors()); });
}

kj::Promise<void> AgentServant::endJob(EndJobContext context) {
  return locked(state_)->in_order(
      head_, [this, context]() mutable { return locked(state_)->end_job(context.getParams().getJob()); });
}

kj::Promise<void> AgentServant::shutdown(ShutdownContext context) {
  shutdown_(text(context.getParams().getReason()));
  return kj::READY_NOW;
}

kj::Promise<void> AgentServant::logs(LogsContext context) {
  auto params = context.getParams();
  auto result =
      locked(state_)->logs(params.getJob(), params.getProcess(), std::min(params.getLines(), kMostLines));
  if (!result) return kj_exception(result.error());
  context.getResults().setText(result->c_str());
  return kj::READY_NOW;
}

kj::Promise<void> WorkerHostServant::register_(RegisterContext context) {
  auto params = context.getParams();
  std::uint64_t job = 0;
  locked(state_)->register_worker(process_, params.getWorker(), params.getClient(), params.getFingerprint(),
                                  job);
  context.getResults().setJob(job);
  return kj::READY_NOW;
}

kj::Promise<void> WorkerHostServant::report(ReportContext context) {
  locked(state_)->worker_report(process_, context.getParams().getEvents());
  return kj::READY_NOW;
}

}  // namespace troupe
