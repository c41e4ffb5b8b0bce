#include "runtime/process/worker_host.h"

#include "core/control/kj_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/peer.h"
#include "runtime/durable/durable_actor.h"
#include "runtime/lane/lane.h"
#include "runtime/process/supervisor.h"
#include "runtime/process/wire_types.h"

namespace troupe {

// An actor on its way to its lane.
struct WorkerHost::Making {
  std::uint16_t lane;
  const ClassTable& table;
  ActorIdentity identity;
  std::vector<std::byte> args;
  std::optional<Durability> plan;
  OpenedJournal journal;                       // of a durable one
  std::shared_ptr<std::atomic<bool>> dropped;  // nobody wants it any more

  Result<void> build(ActorCell& cell, Lane& here, DurableActor::Lost lost) {
    Reader reader(args);
    auto made = cell.construct(reader);
    if (!plan) return made;
    if (!made) {
      journal.journal->close();
      return made;
    }
    auto durable =
        std::make_shared<DurableActor>(cell, here, *plan, std::move(journal.journal), std::move(lost));
    cell.make_durable(durable);
    auto recovered = std::move(journal.recovered);
    return durable->recover(*recovered);
  }
};

class WorkerHost::Server final : public wire::Worker::Server {
 public:
  explicit Server(WorkerHost& host) : host_(host) {}
  kj::Promise<void> place(PlaceContext context) override {
    for (auto placement : context.getParams().getPlacements()) host_.place(placement);
    return kj::READY_NOW;
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    for (auto actor : context.getParams().getActors())
      host_.destroy({actor.getActor()}, actor.getIncarnation());
    return kj::READY_NOW;
  }
  kj::Promise<void> newSession(NewSessionContext context) override {
    host_.plane_.use_session(context.getParams().getSession());
    return kj::READY_NOW;
  }

 private:
  WorkerHost& host_;
};

WorkerHost::WorkerHost(Executor& loop, Participant& participant, const WorkerStart& start)
    : loop_(loop),
      plane_(participant.plane()),
      supervisor_(participant.supervisor()),
      lanes_(participant.lanes()),
      start_(start),
      journals_(loop, plane_, start.journals) {
  participant.host_on(this);
}

WorkerHost::~WorkerHost() noexcept(false) = default;

void WorkerHost::start(Place place, wire::WorkerHost::Client agent,
                       std::function<void(const std::string& why)> give_up) {
  place_ = std::move(place);
  give_up_ = std::move(give_up);
  auto request = agent.registerRequest();
  request.setWorker(kj::heap<Server>(*this));
  request.setClient(plane_.client());
  write_place(request.initEndpoint(), place_);
  request.setFingerprint(plane_.self().fingerprint);
  plane_.session_lost();  // until the node gives one
  loop_.spawn("registering",
              request.send().ignoreResult().catch_([give_up = give_up_](kj::Exception&& failure) {
                give_up("the node refused this worker: " + error_of(failure).message);
              }));
  host_ = kj::mv(agent);
}

void WorkerHost::node_lost(NodeId lost) {
  if (lost.value != start_.node) return;
  give_up_("the head has declared node " + start_.node_name + " lost, on which this worker runs");
}

// ---- actors ----

void WorkerHost::place(wire::Placement::Reader placement) {
  auto spec = placement.getSpec();
  ActorIdentity identity;
  identity.id = {spec.getActor()};
  identity.incarnation = placement.getIncarnation();
  identity.job = {placement.getJob()};
  identity.node = {start_.node};
  identity.node_name = start_.node_name;
  identity.name = spec.getOptions().getName().cStr();
  for (auto gpu : placement.getGpus()) identity.gpus.push_back(gpu);
  const ClassTable* table = find_class(spec.getClassName().cStr());
  if (table == nullptr) {
    report_failed(identity.id, identity.incarnation,
                  Error(ErrorKind::mismatch, std::string("the program in the worker has no actor class ") +
                                                 spec.getClassName().cStr() + "; it has " + class_names()));
    return;
  }
  if (hosted_.count(identity.id)) return;  // a repeated request
  std::uint16_t lane = static_cast<std::uint16_t>(next_lane_++ % lanes_.size());
  auto dropped = std::make_shared<std::atomic<bool>>(false);
  hosted_[identity.id] = {lane, identity.incarnation, dropped};
  auto making = std::make_shared<Making>(Making{lane, *table, std::move(identity), {}, {}, {}, dropped});
  auto args = spec.getArgs();
  making->args.resize(args.size());
  if (args.size() != 0) std::memcpy(making->args.data(), args.begin(), args.size());
  if (!spec.getOptions().hasDurability()) return make(std::move(making));
  making->plan = read_durability(spec.getOptions().getDurability());
  const ActorIdentity& who = making->identity;
  JournalOwner owner{who.id.value, making->plan->key, who.incarnation, placement.getServed()};
  opening_.insert({who.id, who.incarnation});
  journals_.open(*making->plan, owner, [this, making](Result<OpenedJournal> opened) {
    const ActorIdentity& who = making->identity;
    bool wanted = opening_.erase({who.id, who.incarnation}) > 0;
    if (!wanted) {
      if (opened) opened->journal->close();
    } else if (!opened) {
      report_failed(who.id, who.incarnation, opened.error());
    } else {
      making->journal = std::move(*opened);
      make(making);
    }
  });
}

// Constructors are user code and may block: they run in their turn on the lane, not among the tasks.
void WorkerHost::make(std::shared_ptr<Making> making) {
  class Construct final : public Runnable {
   public:
    Construct(WorkerHost& host, std::shared_ptr<Making> making) : host_(host), making_(std::move(making)) {}
    void run() override {
      Lane& here = *Lane::current();
      ActorId id = making_->identity.id;
      std::uint32_t incarnation = making_->identity.incarnation;
      auto* cell = new ActorCell(here, making_->table, std::move(making_->identity));
      auto made = making_->build(*cell, here, [host = &host_, id, incarnation](const Error& why) {
        host->loop_.post([host, id, incarnation, why] { host->lose(id, incarnation, why); });
      });
      // Its constructor may have waited for long, and others have run on the lane meanwhile.
      bool wanted = !*making_->dropped;
      if (made && wanted)
        here.actors()[id] = cell;
      else
        cell->release();
      if (wanted) report(made, id, incarnation);
      delete this;
    }
    void discard() override { delete this; }

   private:
    void report(const Result<void>& made, ActorId id, std::uint32_t incarnation) {
      host_.loop_.post([&host = host_, lane = making_->lane, id, incarnation,
                        failure = made ? nullptr : std::make_shared<const Error>(made.error())] {
        if (failure)
          host.report_failed(id, incarnation, *failure);
        else
          host.report_alive(id, incarnation, lane);
      });
    }

    WorkerHost& host_;
    std::shared_ptr<Making> making_;
  };
  Lane& lane = *lanes_[making->lane];
  lane.post_function([this, &lane, making] { lane.schedule(new Construct(*this, making)); });
}

void WorkerHost::lose(ActorId actor, std::uint32_t incarnation, const Error& why) {
  if (!hosts(actor, incarnation)) return;
  destroy(actor, incarnation);
  report_failed(actor, incarnation, why);
}

bool WorkerHost::hosts(ActorId actor, std::uint32_t incarnation) const {
  auto at = hosted_.find(actor);
  return at != hosted_.end() && at->second.incarnation == incarnation;
}

void WorkerHost::destroy(ActorId actor, std::uint32_t incarnation) {
  opening_.erase({actor, incarnation});
  if (!hosts(actor, incarnation)) return;
  auto at = hosted_.find(actor);
  Lane& lane = *lanes_[at->second.lane];
  *at->second.dropped = true;
  hosted_.erase(at);
  supervisor_.owner_ended(actor);
  lane.post_function([&lane, actor, incarnation] {
    class End final : public Runnable {
     public:
      End(ActorId actor, std::uint32_t incarnation) : actor_(actor), incarnation_(incarnation) {}
      void run() override {
        auto& actors = Lane::current()->actors();
        auto at = actors.find(actor_);
        if (at != actors.end() && at->second->identity().incarnation == incarnation_) {
          ActorCell* cell = at->second;
          actors.erase(at);
          cell->end(Error(ErrorKind::cancelled, "it was killed"));
          cell->release();
        }
        delete this;
      }
      void discard() override { delete this; }

     private:
      ActorId actor_;
      std::uint32_t incarnation_;
    };
    lane.schedule(new End(actor, incarnation));
  });
}

Lane* WorkerHost::lane_of(ActorId actor) const {
  auto at = hosted_.find(actor);
  return at == hosted_.end() ? nullptr : lanes_[at->second.lane].get();
}

void WorkerHost::fail(ActorId actor, const Error& why) {
  auto at = hosted_.find(actor);
  if (at == hosted_.end()) return;
  std::uint32_t incarnation = at->second.incarnation;
  destroy(actor, incarnation);
  report_failed(actor, incarnation, why);
}

// ---- reports ----

void WorkerHost::report_alive(ActorId actor, std::uint32_t incarnation, std::uint16_t lane) {
  if (!hosts(actor, incarnation)) return;
  reports_.push_back({actor, incarnation, lane, nullptr});
  report_later();
}

void WorkerHost::report_failed(ActorId actor, std::uint32_t incarnation, const Error& error) {
  if (hosts(actor, incarnation)) {
    hosted_.erase(actor);
    supervisor_.owner_ended(actor);
  }
  reports_.push_back({actor, incarnation, 0, std::make_shared<const Error>(error)});
  report_later();
}

void WorkerHost::report_later() {
  if (report_posted_) return;
  report_posted_ = true;
  loop_.post([this] {
    report_posted_ = false;
    send_reports();
  });
}

void WorkerHost::send_reports() {
  auto reports = std::move(reports_);
  reports_.clear();
  KJ_IF_MAYBE (host, host_) {
    auto call = host->reportRequest();
    auto events = call.initEvents(static_cast<unsigned>(reports.size()));
    for (unsigned i = 0; i < reports.size(); ++i) {
      const Report& report = reports[i];
      if (report.failure) {
        auto failed = events[i].initActorFailed();
        failed.initOf().setActor(report.actor.value);
        failed.getOf().setIncarnation(report.incarnation);
        write_failure(failed.initFailure(), *report.failure);
      } else {
        auto alive = events[i].initActorAlive();
        alive.initOf().setActor(report.actor.value);
        alive.getOf().setIncarnation(report.incarnation);
        place_.lane = report.lane;
        write_place(alive.initEndpoint(), place_);
      }
    }
    loop_.spawn("report to the node", call.send().ignoreResult());
  }
}

void WorkerHost::take_link(std::uint16_t lane, std::unique_ptr<Link> link) {
  auto shared = std::make_shared<std::unique_ptr<Link>>(std::move(link));
  Lane& target = *lanes_[lane];
  target.post_function([&target, shared] { target.add_peer(Peer::serving(target, std::move(*shared))); });
}

}  // namespace troupe
