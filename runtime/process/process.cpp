#include "runtime/process/process.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

#include "core/base/log.h"
#include "core/base/throws_error.h"
#include "core/config/head_connection.h"
#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/invocation.h"
#include "runtime/call/route.h"
#include "runtime/process/control_plane.h"
#include "runtime/process/driver_session.h"
#include "runtime/process/fingerprint.h"
#include "runtime/process/job_info.h"
#include "runtime/process/supervisor.h"
#include "runtime/process/worker_host.h"

namespace troupe {
namespace {

std::atomic<Process*> the_process{nullptr};

// A failure's handler, run as the owner's code. Deletes itself.
class OwnersTurn final : public Runnable {
 public:
  using Done = std::function<void(std::shared_ptr<Error> threw)>;
  OwnersTurn(ActorId owner, FailureHandler handler, ActorFailure failure, Done done)
      : owner_(owner), handler_(std::move(handler)), failure_(std::move(failure)), done_(std::move(done)) {}
  void run() override {
    ActorCell* cell = nullptr;
    if (owner_) {
      auto& actors = Lane::current()->actors();
      auto at = actors.find(owner_);
      if (at == actors.end()) return discard();  // it has ended, and what it owned ends with it
      cell = at->second;
      cell->enter();
    }
    Current before = std::exchange(current(), Current{cell, nullptr});
    std::shared_ptr<Error> threw;
    try {
      handler_(failure_);
    } catch (...) {
      threw = std::make_shared<Error>(current_error());
    }
    current() = before;
    if (cell != nullptr) cell->leave();
    done_(std::move(threw));
    delete this;
  }
  void discard() override { delete this; }

 private:
  ActorId owner_;
  FailureHandler handler_;
  ActorFailure failure_;
  Done done_;
};

}  // namespace

// Order of destruction: lanes first (their threads use everything else), then, on the control thread, plane
// and connection, then the loop.
class Process::Impl {
 public:
  // Lives on the control thread.
  std::unique_ptr<ControlLoop> loop;
  std::unique_ptr<Supervisor> supervisor;
  std::unique_ptr<ControlPlane> plane;
  std::unique_ptr<DriverSession> session;  // a driver's
  std::unique_ptr<WorkerHost> host;
  std::thread control;  // a driver's; a worker's control thread is its main thread

  std::optional<std::string> head_option;
  std::string program;
  std::vector<std::string> arguments;
  LinkIdentity self;
  NodeId node;
  std::string node_name;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::atomic<std::uint64_t> spawned{0}, groups{0};

  std::mutex mutex;  // guards what follows
  std::vector<SpawnRequest> spawns;
  bool spawn_posted = false;

  // What is posted while the process ends is dropped: the loop still runs it, but nothing is left to serve
  // it.
  template <class F>
  void post(F f) {
    loop->post([this, f = std::move(f)]() mutable {
      if (plane) f();
    });
  }

  void flush_spawns() {
    std::vector<SpawnRequest> requests;
    {
      std::lock_guard lock(mutex);
      requests.swap(spawns);
      spawn_posted = false;
    }
    for (SpawnRequest& request : requests) supervise(request);
    if (!requests.empty()) plane->spawn(std::move(requests));
  }
  void supervise(SpawnRequest& request) {
    if (request.detached)
      supervisor->disown(request.actor);
    else if (request.owner || request.on_failure)
      supervisor->own(request.actor, request.owner, std::move(request.on_failure));
  }

  // The driver's control thread.
  void run_driver(const Token& token, std::promise<Result<void>>& ready);
  void end_driver();
  DriverSession::Hooks way_to_head();
  ControlPlane::Hooks hooks();
  Supervisor::Hooks supervision();
  void fail_owner(ActorId owner, Error why);
};

Process::Process(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { the_process = this; }

Process& Process::get() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) {
    throw ThrowsError(Error(ErrorKind::invalid_argument,
                            "no troupe::Runtime exists: make one at the start of main, and keep it"));
  }
  return *process;
}

bool Process::running() { return the_process.load(std::memory_order_acquire) != nullptr; }

// ---- the driver ----

void Process::Impl::run_driver(const Token& token, std::promise<Result<void>>& ready) {
  loop = std::make_unique<ControlLoop>();
  try {
    self.fingerprint = fingerprint();
    self.host_id = host_id();
    supervisor = std::make_unique<Supervisor>(*loop, supervision());
    plane = std::make_unique<ControlPlane>(*loop, self, token, hooks());
    session = std::make_unique<DriverSession>(*loop, *plane, way_to_head());
    session->enter().wait(loop->scope());
  } catch (const kj::Exception& e) {
    ready.set_value(error_of(e));
    return end_driver();
  }
  ready.set_value(Result<void>());
  loop->run();
  end_driver();
}

void Process::Impl::end_driver() {
  session = nullptr;
  plane = nullptr;
  supervisor = nullptr;
  loop = nullptr;
}

DriverSession::Hooks Process::Impl::way_to_head() {
  DriverSession::Hooks hooks;
  hooks.connect = [this] { return find_head(*loop, head_option); };
  hooks.describe = [this](wire::JobInfo::Builder to) { write_job_info(to, program, arguments, self); };
  hooks.opened = [this](JobId job, ProcessId process) {
    self.job = job;
    self.process = process;
    plane->identify(self);
  };
  return hooks;
}

// ---- what the control plane tells ----

ControlPlane::Hooks Process::Impl::hooks() {
  ControlPlane::Hooks hooks;
  hooks.node_lost = [this](NodeId lost) {
    for (auto& lane : lanes)
      lane->post_function([lane = lane.get(), lost] { lane->routes().node_lost(lost); });
  };
  hooks.incarnation_over = [this](ActorId actor, std::uint32_t incarnation) {
    for (auto& lane : lanes) {
      lane->post_function(
          [lane = lane.get(), actor, incarnation] { lane->routes().incarnation_over(actor, incarnation); });
    }
  };
  hooks.died = [this](const ActorNews& news) {
    Error why = news.failure ? *news.failure : Error(ErrorKind::actor_died, "it ended");
    supervisor->died({news.actor, news.class_name, std::move(why)});
  };
  return hooks;
}

Supervisor::Hooks Process::Impl::supervision() {
  Supervisor::Hooks hooks;
  hooks.run = [this](ActorId owner, FailureHandler handler, ActorFailure failure,
                     std::function<void(std::shared_ptr<Error>)> done) {
    Lane* lane = !owner ? lanes.front().get() : host ? host->lane_of(owner) : nullptr;
    if (lane == nullptr) return;
    auto* item = new OwnersTurn(owner, std::move(handler), std::move(failure),
                                [this, done = std::move(done)](std::shared_ptr<Error> threw) {
                                  post([done, threw] { done(threw); });
                                });
    lane->post_function([lane, item] { lane->schedule(item); });
  };
  hooks.fail = [this](ActorId owner, Error why) { fail_owner(owner, std::move(why)); };
  return hooks;
}

void Process::Impl::fail_owner(ActorId owner, Error why) {
  if (owner && host) return host->fail(owner, why);
  log(Level::error, "this program ends: " + why.describe());
  std::fflush(nullptr);
  if (!host) ::_exit(1);
}

Result<std::unique_ptr<Process>> Process::start_driver(const std::string& head, const std::string& program,
                                                       const std::vector<std::string>& arguments,
                                                       const ProcessOptions& options) {
  if (running()) return Error(ErrorKind::invalid_argument, "this process has a troupe::Runtime already");
  auto cluster = find_cluster(head.empty() ? std::optional<std::string>() : head);
  // A head that has ended may be about to be replaced; what is wrong otherwise stays so.
  if (!cluster && cluster.error().kind != ErrorKind::unavailable) return cluster.error();
  auto token = cluster_token(false);
  if (!token) return token.error();
  auto impl = std::make_unique<Impl>();
  std::promise<Result<void>> ready;
  auto started = ready.get_future();
  if (!head.empty()) impl->head_option = head;
  impl->program = program;
  impl->arguments = arguments;
  impl->control = std::thread([&impl = *impl, &ready, token = *token] { impl.run_driver(token, ready); });
  auto result = started.get();
  if (!result) {
    impl->control.join();
    return result.error();
  }
  Impl& i = *impl;
  auto process = std::unique_ptr<Process>(new Process(std::move(impl)));
  LaneOptions lane;
  lane.drivable = true;
  lane.poll = options.poll;
  i.lanes.push_back(std::make_unique<Lane>(lane, *process));
  i.lanes.front()->start();
  return process;
}

Process::~Process() {
  for (auto& lane : impl_->lanes) lane->stop("the program leaves the cluster");
  if (impl_->control.joinable()) {
    impl_->loop->stop();
    impl_->control.join();
  }
  the_process = nullptr;
  impl_->lanes.clear();
}

// ---- a worker ----

void Process::run_worker(const WorkerStart& start, const ProcessOptions& options) {
  auto token = Token::parse(start.token_hex);
  auto impl = std::make_unique<Impl>();
  Impl& i = *impl;
  i.loop = std::make_unique<ControlLoop>();
  i.self.process = {start.process};
  i.self.job = {start.job};
  i.self.fingerprint = fingerprint();
  i.self.host_id = start.host_id;
  i.node = {start.node};
  i.node_name = start.node_name;
  log_to("worker " + std::to_string(start.process));
  auto* process = new Process(std::move(impl));
  int lanes = std::max(1, std::min(start.lanes, 64));
  for (int n = 0; n < lanes; ++n) {
    LaneOptions lane;
    lane.index = n;
    lane.hand_off = start.isolation != 0;
    lane.poll = options.poll;
    i.lanes.push_back(std::make_unique<Lane>(lane, *process));
    i.lanes.back()->start();
  }
  if (!token) {
    log(Level::error, "the agent gave no valid token: " + token.error().message);
    ::_exit(2);
  }
  i.supervisor = std::make_unique<Supervisor>(*i.loop, i.supervision());
  i.plane = std::make_unique<ControlPlane>(*i.loop, i.self, *token, i.hooks());
  i.host = std::make_unique<WorkerHost>(*i.loop, *i.plane, *i.supervisor, i.lanes, start);
  i.host->start();
  i.loop->run();
  ::_exit(0);  // not reached: the agent's end kills the process group
}

// ---- requests ----

JobId Process::job() const { return impl_->self.job; }
NodeId Process::node() const { return impl_->node; }
const std::string& Process::node_name() const { return impl_->node_name; }
ProcessId Process::self() const { return impl_->self.process; }

Lane* Process::lane_at(std::uint16_t index) {
  return index < impl_->lanes.size() ? impl_->lanes[index].get() : nullptr;
}

Lane& Process::default_lane() {
  Lane* here = Lane::current();
  return here != nullptr ? *here : *impl_->lanes.front();
}

namespace {

ActorId number(std::atomic<std::uint64_t>& counter, ProcessId self) {
  std::uint64_t n = counter.fetch_add(1) + 1;
  if (n > kActorsPerProcess) {
    throw ThrowsError(Error(
        ErrorKind::overloaded,
        "this process has spawned " + std::to_string(kActorsPerProcess) + " actors, the most a process can"));
  }
  return actor_of(self, n);
}

}  // namespace

ActorId Process::spawn(SpawnRequest request) {
  ActorId actor = request.actor = number(impl_->spawned, impl_->self.process);
  bool post = false;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->spawns.push_back(std::move(request));
    post = !std::exchange(impl_->spawn_posted, true);
  }
  if (post) impl_->post([this] { impl_->flush_spawns(); });
  return actor;
}

void Process::spawn_named(SpawnRequest request, Answer<ActorId> answer) {
  request.actor = number(impl_->spawned, impl_->self.process);
  impl_->post([this, request = std::move(request), answer = std::move(answer)]() mutable {
    impl_->flush_spawns();
    impl_->supervise(request);
    impl_->plane->spawn_named(std::move(request), std::move(answer));
  });
}

void Process::find(const std::string& name, const std::string& class_name, Answer<ActorId> answer) {
  impl_->post(
      [this, name, class_name, answer = std::move(answer)] { impl_->plane->find(name, class_name, answer); });
}

void Process::kill(ActorId actor, bool no_restart, Answer<bool> answer) {
  impl_->post([this, actor, no_restart, answer = std::move(answer)] {
    impl_->flush_spawns();
    impl_->plane->kill(actor, no_restart, answer);
  });
}

void Process::nodes(Answer<std::vector<NodeSummary>> answer) {
  impl_->post([this, answer = std::move(answer)] { impl_->plane->nodes(answer); });
}

void Process::on_failure(ActorId owner, FailureHandler handler) {
  impl_->post(
      [this, owner, handler = std::move(handler)] { impl_->supervisor->set_handler(owner, handler); });
}

std::uint64_t Process::new_group() { return number(impl_->groups, impl_->self.process).value; }

void Process::join_group(GroupJoinRequest request, GroupJoined joined, GroupBroken broken) {
  impl_->post(
      [this, request = std::move(request), joined = std::move(joined), broken = std::move(broken)]() mutable {
        impl_->plane->groups().join(std::move(request), std::move(joined), std::move(broken));
      });
}

void Process::post_to_group(GroupPostRequest request, GroupPosted posted) {
  impl_->post([this, request = std::move(request), posted = std::move(posted)]() mutable {
    impl_->plane->groups().post(std::move(request), std::move(posted));
  });
}

void Process::leave_group(std::uint64_t group, ActorId actor, std::uint32_t incarnation) {
  impl_->post([this, group, actor, incarnation] { impl_->plane->groups().leave(group, actor, incarnation); });
}

void Process::observed(ActorId actor) {
  impl_->post([this, actor] { impl_->supervisor->observed(actor); });
}

void Process::resolve(ActorId actor, std::uint32_t after, Lane& lane) {
  impl_->post([this, actor, after, &lane] {
    impl_->flush_spawns();
    impl_->plane->resolve(actor, after, lane);
  });
}

void Process::connect(std::shared_ptr<const Place> place, Lane& lane) {
  impl_->post([this, place = std::move(place), &lane] { impl_->plane->connect(place, lane); });
}

}  // namespace troupe
