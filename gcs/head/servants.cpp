#include "gcs/head/servants.h"

#include "gcs/head/cancellation.h"

#include "core/control/kj_error.h"
#include "gcs/head/views.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {

HeadState& Servant::head() const {
  auto head = head_.lock();
  if (!head) kj::throwFatalException(kj_exception(Error(ErrorKind::unavailable, "the head has ended")));
  return *head;  // its owner is on this thread, so it lives on while this call runs
}

kj::Promise<void> HeadServant::join(JoinContext context) {
  head().refuse_if_overloaded();
  auto params = context.getParams();
  NodeInfo info = read(params.getInfo());
  std::vector<JobId> jobs;
  for (auto job : params.getJobs()) jobs.push_back({job});
  NodeId was{params.getWas()};
  auto agent = params.getAgent();
  context.releaseParams();
  // Registered with the answer itself: commands to the node may follow in the same turn.
  return head()
      .ask(
          [&](RequestId request) {
            return NodeJoin{request, std::move(info), std::move(jobs), was};
          },
          [head = &head(), agent = kj::mv(agent)](const Answer& answer) mutable {
            head->add_node(std::get<NodeJoined>(answer).node, kj::mv(agent));
          })
      .then([this, context](kj::Own<Answer>&& answer) mutable {
        const auto& joined = std::get<NodeJoined>(*answer);
        auto results = context.getResults();
        results.setNode(joined.node.value);
        results.setName(text(joined.name));
        results.setMembership(kj::heap<MembershipServant>(head_, joined.node, head().node(joined.node)));
      });
}

kj::Promise<void> HeadServant::openJob(OpenJobContext context) {
  head().refuse_if_overloaded();
  auto params = context.getParams();
  JobInfo info = read(params.getInfo());
  auto client = params.getClient();
  context.releaseParams();
  auto generation = std::make_shared<std::uint64_t>(0);
  return head()
      .ask(
          [&](RequestId request) {
            return JobOpen{request, std::move(info)};
          },
          [head = &head(), client = kj::mv(client), generation](const Answer& answer) mutable {
            *generation = head->add_client(std::get<JobOpened>(answer).process, kj::mv(client));
          })
      .then([this, context, generation](kj::Own<Answer>&& answer) mutable {
        const auto& opened = std::get<JobOpened>(*answer);
        auto results = context.getResults();
        results.setJob(opened.job.value);
        results.setProcess(opened.process.value);
        results.setSession(kj::heap<SessionServant>(head_, opened.process, *generation));
      });
}

kj::Promise<void> HeadServant::admin(AdminContext context) {
  context.getResults().setAdmin(kj::heap<AdminServant>(head_));
  return kj::READY_NOW;
}

MembershipServant::~MembershipServant() {
  if (auto head = head_.lock()) head->node_gone(node_, peer_, "its connection ended");
}

void MembershipServant::report_one(wire::NodeEvent::Reader event) {
  switch (event.which()) {
    case wire::NodeEvent::ACTOR_ALIVE: {
      auto alive = event.getActorAlive();
      head().apply(ActorAlive{
          node_, {alive.getOf().getActor()}, alive.getOf().getIncarnation(), read(alive.getEndpoint())});
      break;
    }
    case wire::NodeEvent::ACTOR_FAILED: {
      auto failed = event.getActorFailed();
      head().apply(ActorFailed{node_,
                               {failed.getOf().getActor()},
                               failed.getOf().getIncarnation(),
                               std::make_shared<Error>(read_failure(failed.getFailure()))});
      break;
    }
    case wire::NodeEvent::PROCESS_ENDED: {
      auto ended = event.getProcessEnded();
      head().apply(ProcessEnded{
          node_, {ended.getProcess()}, std::make_shared<Error>(read_failure(ended.getFailure()))});
      break;
    }
    case wire::NodeEvent::OUTPUT: {
      auto output = event.getOutput();
      const JobRecord* job = head().core().job({output.getJob()});
      const NodeRecord* node = head().core().node(node_);
      ClientPeer* driver = job != nullptr ? head().client(job->driver) : nullptr;
      if (driver == nullptr || node == nullptr) break;
      std::vector<std::string> lines;
      for (auto line : output.getLines()) lines.push_back(text(line));
      driver->output({output.getProcess()}, node->info.name, std::move(lines), output.getDropped());
      head().flush_client(job->driver);
      break;
    }
  }
}

kj::Promise<void> MembershipServant::report(ReportContext context) {
  head().seen(node_);
  for (auto event : context.getParams().getEvents()) report_one(event);
  context.releaseParams();
  return head().ask([](RequestId request) { return Acknowledge{request}; }).ignoreResult();
}

kj::Promise<void> MembershipServant::heartbeat(HeartbeatContext) {
  head().seen(node_);
  return kj::READY_NOW;
}

kj::Promise<void> MembershipServant::workerSession(WorkerSessionContext context) {
  head().seen(node_);
  auto params = context.getParams();
  ProcessId process{params.getProcess()};
  auto client = params.getClient();
  context.releaseParams();
  return head()
      .ask([&](RequestId request) {
        return SessionOpen{request, node_, process};
      })
      .then([this, context, process, client = kj::mv(client)](kj::Own<Answer>&&) mutable {
        std::uint64_t generation = head().add_client(process, kj::mv(client));
        context.getResults().setSession(kj::heap<SessionServant>(head_, process, generation));
      });
}

// Asked by an agent that may be on its way out: it is answered as long as it is connected.
kj::Promise<void> MembershipServant::deadActors(DeadActorsContext context) {
  std::vector<std::uint64_t> dead, unknown;
  for (auto id : context.getParams().getAsked()) {
    const ActorRecord* record = head().core().actor({id});
    if (record == nullptr)
      unknown.push_back(id);
    else if (record->phase == Phase::dead)
      dead.push_back(id);
  }
  auto results = context.getResults();
  auto write_ids = [](auto list, const std::vector<std::uint64_t>& from) {
    for (unsigned i = 0; i < from.size(); ++i) list.set(i, from[i]);
  };
  write_ids(results.initDead(static_cast<unsigned>(dead.size())), dead);
  write_ids(results.initUnknown(static_cast<unsigned>(unknown.size())), unknown);
  // What was decided last must be durable before files go.
  return head().ask([](RequestId request) { return Acknowledge{request}; }).ignoreResult();
}

kj::Promise<void> MembershipServant::nodes(NodesContext context) {
  view_nodes(head().core(), [&](unsigned n) { return context.getResults().initNodes(n); });
  return kj::READY_NOW;
}

SessionServant::~SessionServant() {
  if (auto head = head_.lock()) head->client_gone(process_, generation_);
}

kj::Promise<void> SessionServant::spawn(SpawnContext context) {
  head().refuse_if_overloaded();
  Spawn spawn;
  spawn.session = process_;
  auto actors = context.getParams().getActors();
  spawn.actors.reserve(actors.size());
  for (auto actor : actors) spawn.actors.push_back(read(actor));
  context.releaseParams();
  allow_cancellation(context);
  return head()
      .ask([&](RequestId request) {
        spawn.request = request;
        return std::move(spawn);
      })
      .then([context](kj::Own<Answer>&& answer) mutable {
        const auto& results = std::get<std::vector<SpawnResult>>(*answer);
        auto list = context.getResults().initSpawned(static_cast<unsigned>(results.size()));
        for (unsigned i = 0; i < list.size(); ++i) {
          list[i].setActor(results[i].actor.value);
          if (results[i].failure) write_failure(list[i].initFailure(), *results[i].failure);
        }
      });
}

kj::Promise<void> SessionServant::resolve(ResolveContext context) {
  auto params = context.getParams();
  ActorId actor{params.getActor()};
  std::uint32_t after = params.getAfter();
  allow_cancellation(context);
  return head()
      .ask([&](RequestId request) {
        return Resolve{request, process_, actor, after};
      })
      .then([context](kj::Own<Answer>&& answer) mutable {
        write(context.getResults().initState(), std::get<ActorState>(*answer));
      });
}

kj::Promise<void> SessionServant::find(FindContext context) {
  std::string name = text(context.getParams().getName());
  allow_cancellation(context);
  return head()
      .ask([&](RequestId request) {
        return Find{request, std::move(name)};
      })
      .then([context](kj::Own<Answer>&& answer) mutable {
        write(context.getResults().initState(), std::get<ActorState>(*answer));
      });
}

kj::Promise<void> SessionServant::kill(KillContext context) {
  head().refuse_if_overloaded();
  auto params = context.getParams();
  allow_cancellation(context);
  return head()
      .ask([&](RequestId request) {
        return Kill{request, {params.getActor()}, params.getNoRestart()};
      })
      .ignoreResult();
}

kj::Promise<void> SessionServant::nodes(NodesContext context) {
  view_nodes(head().core(), [&](unsigned n) { return context.getResults().initNodes(n); });
  return kj::READY_NOW;
}

}  // namespace troupe::gcs
