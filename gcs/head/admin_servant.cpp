#include <algorithm>
#include <charconv>

#include "core/control/kj_error.h"
#include "gcs/head/servants.h"

#include "gcs/head/cancellation.h"
#include "gcs/head/views.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {
namespace {

[[noreturn]] void fail(ErrorKind kind, std::string message) {
  kj::throwFatalException(kj_exception(Error(kind, std::move(message))));
}

JobId job_target(const std::string& target) {
  JobId id;
  auto [end, bad] = std::from_chars(target.data() + 4, target.data() + target.size(), id.value);
  if (bad != std::errc{} || end != target.data() + target.size() || !id) {
    fail(ErrorKind::invalid_argument, target + ": write job:NUMBER, as `troupe job list` shows it");
  }
  return id;
}

ActorId actor_target(const ControlStore& core, const std::string& target) {
  if (ActorId named = core.named(target)) return named;
  if (ActorId id = parse_actor_id(target)) return id;
  fail(ErrorKind::not_found, "no actor " + target + "; `troupe list actors` shows their ids and names");
}

}  // namespace

kj::Promise<void> AdminServant::status(StatusContext context) {
  view_cluster(head(), context.getResults().initCluster());
  return kj::READY_NOW;
}

kj::Promise<void> AdminServant::nodes(NodesContext context) {
  view_nodes(head().core(), [&](unsigned n) { return context.getResults().initNodes(n); });
  return kj::READY_NOW;
}

kj::Promise<void> AdminServant::jobs(JobsContext context) {
  const auto& jobs = head().core().jobs();
  auto list = context.getResults().initJobs(static_cast<unsigned>(jobs.size()));
  unsigned i = 0;
  for (const auto& [id, job] : jobs) view_job(head().core(), id, list[i++]);
  return kj::READY_NOW;
}

// Living ones first, each group by id.
kj::Promise<void> AdminServant::actors(ActorsContext context) {
  auto params = context.getParams();
  JobId job{params.getJob()};
  std::vector<const ActorRecord*> all;
  for (const auto& [id, record] : head().core().actors()) {
    if (!job || record.job == job) all.push_back(&record);
  }
  std::size_t limit =
      params.getLimit() == 0 ? all.size() : std::min<std::size_t>(params.getLimit(), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(limit), all.end(),
                    [](const ActorRecord* a, const ActorRecord* b) {
                      bool dead_a = a->phase == Phase::dead, dead_b = b->phase == Phase::dead;
                      return dead_a != dead_b ? dead_b : a->spec->actor < b->spec->actor;
                    });
  auto list = context.getResults().initActors(static_cast<unsigned>(limit));
  for (unsigned i = 0; i < limit; ++i) view_actor(head().core(), *all[i], list[i]);
  context.getResults().setTotal(static_cast<std::uint32_t>(all.size()));
  return kj::READY_NOW;
}

kj::Promise<void> AdminServant::kill(KillContext context) {
  auto params = context.getParams();
  std::string target = text(params.getTarget());
  bool no_restart = params.getNoRestart();
  auto make = [&](RequestId request) -> Event {
    if (target.rfind("job:", 0) == 0) return JobEnd{request, job_target(target), "it was killed"};
    if (target.rfind("node:", 0) == 0) return NodeRemove{request, target.substr(5)};
    return Kill{request, actor_target(head().core(), target), no_restart};
  };
  (void)make(0);  // reports a bad target before anything waits
  return head().ask(make).then([context](kj::Own<Answer>&& answer) mutable {
    context.getResults().setWhat(text(std::get<Done>(*answer).what));
  });
}

kj::Promise<void> AdminServant::logs(LogsContext context) {
  auto params = context.getParams();
  std::string target = text(params.getTarget());
  std::uint32_t lines = params.getLines();
  const ControlStore& core = head().core();
  JobId job;
  ProcessId process;
  std::vector<NodeId> nodes;
  if (target.rfind("job:", 0) == 0) {
    job = job_target(target);
    for (const auto& [id, node] : core.nodes()) nodes.push_back(id);
  } else {
    ActorId id = actor_target(core, target);
    const ActorRecord* record = core.actor(id);
    if (record == nullptr) fail(ErrorKind::not_found, "no actor " + target);
    if (!record->node) {
      fail(ErrorKind::not_found,
           "actor " + target + " runs nowhere now; see the logs of job:" + to_string(record->job));
    }
    job = record->job;
    process = record->process;
    nodes.push_back(record->node);
  }
  auto answers = kj::heapArrayBuilder<kj::Promise<std::string>>(nodes.size());
  for (NodeId id : nodes) {
    NodePeer* peer = head().node(id);
    if (peer == nullptr) {
      answers.add(std::string());
      continue;
    }
    std::string title = nodes.size() > 1 ? "== node " + core.node(id)->info.name + "\n" : "";
    auto request = peer->agent().logsRequest();
    request.setJob(job.value);
    request.setProcess(process.value);
    request.setLines(lines);
    answers.add(request.send().then(
        [title](auto&& response) {
          std::string all = text(response.getText());
          return all.empty() ? all : title + all;
        },
        [title](kj::Exception&& failure) { return title + "(" + error_of(failure).message + ")\n"; }));
  }
  allow_cancellation(context);
  return kj::joinPromises(answers.finish()).then([context](kj::Array<std::string>&& texts) mutable {
    std::string all;
    for (const std::string& one : texts) all += one;
    context.getResults().setText(text(all));
  });
}

kj::Promise<void> AdminServant::shutdown(ShutdownContext) {
  head().request_shutdown();
  return kj::READY_NOW;
}

}  // namespace troupe::gcs
