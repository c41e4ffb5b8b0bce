#include "runtime/process/process.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "core/base/log.h"
#include "core/base/throws_error.h"
#include "core/config/find_cluster.h"
#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "runtime/process/control_plane.h"
#include "runtime/process/fingerprint.h"
#include "runtime/process/job_info.h"
#include "runtime/process/worker_host.h"

namespace troupe {
namespace {

std::atomic<Process*> the_process{nullptr};

}  // namespace

// Order of destruction: lanes first (their threads use everything else), then, on the control thread, plane
// and connection, then the loop.
class Process::Impl {
 public:
  // Lives on the control thread.
  std::unique_ptr<ControlLoop> loop;
  std::unique_ptr<ControlPlane> plane;
  kj::Own<RpcConnection> head;
  std::unique_ptr<WorkerHost> host;
  std::thread control;  // a driver's; a worker's control thread is its main thread

  LinkIdentity self;
  NodeId node;
  std::string node_name;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::atomic<std::uint64_t> spawned{0};

  std::mutex mutex;  // guards what follows
  std::vector<SpawnRequest> spawns;
  bool spawn_posted = false;

  void flush_spawns() {
    std::vector<SpawnRequest> requests;
    {
      std::lock_guard lock(mutex);
      requests.swap(spawns);
      spawn_posted = false;
    }
    if (!requests.empty()) plane->spawn(std::move(requests));
  }

  void run_driver(const ClusterLocation& cluster, const std::string& program,
                  const std::vector<std::string>& arguments, std::promise<Result<void>>& ready);
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

void Process::Impl::run_driver(const ClusterLocation& cluster, const std::string& program,
                               const std::vector<std::string>& arguments, std::promise<Result<void>>& ready) {
  loop = std::make_unique<ControlLoop>();
  try {
    self.fingerprint = fingerprint();
    self.host_id = host_id();
    plane = std::make_unique<ControlPlane>(*loop, self, cluster.token);
    head = rpc_connect(*loop, cluster.address, cluster.token).wait(loop->scope());
    auto request = head->bootstrap().castAs<wire::Head>().openJobRequest();
    write_job_info(request.initInfo(), program, arguments, self);
    request.setClient(plane->client());
    auto answer = request.send().wait(loop->scope());
    self.job = {answer.getJob()};
    self.process = {answer.getProcess()};
    plane->identify(self);
    plane->use_session(answer.getSession());
    loop->spawn("head", head->on_disconnect().then([this, where = cluster.address.text()] {
      plane->lose_session(Error(ErrorKind::unavailable, "the connection to the head at " + where + " ended"));
    }));
  } catch (const kj::Exception& e) {
    head = nullptr;
    plane = nullptr;
    loop = nullptr;
    ready.set_value(error_of(e));
    return;
  }
  ready.set_value(Result<void>());
  loop->run();
  plane = nullptr;
  head = nullptr;
  loop = nullptr;
}

Result<std::unique_ptr<Process>> Process::start_driver(const std::string& head, const std::string& program,
                                                       const std::vector<std::string>& arguments,
                                                       const ProcessOptions& options) {
  if (running()) return Error(ErrorKind::invalid_argument, "this process has a troupe::Runtime already");
  auto cluster = find_cluster(head.empty() ? std::optional<std::string>() : head);
  if (!cluster) return cluster.error();
  auto impl = std::make_unique<Impl>();
  std::promise<Result<void>> ready;
  auto started = ready.get_future();
  impl->control = std::thread([&impl = *impl, &ready, cluster = *cluster, program, arguments] {
    impl.run_driver(cluster, program, arguments, ready);
  });
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
  i.plane = std::make_unique<ControlPlane>(*i.loop, i.self, *token);
  i.host = std::make_unique<WorkerHost>(*i.loop, *i.plane, i.lanes, start);
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
  if (post) impl_->loop->post([this] { impl_->flush_spawns(); });
  return actor;
}

void Process::spawn_named(SpawnRequest request, Answer<ActorId> answer) {
  request.actor = number(impl_->spawned, impl_->self.process);
  impl_->loop->post([this, request = std::move(request), answer = std::move(answer)]() mutable {
    impl_->flush_spawns();
    impl_->plane->spawn_named(std::move(request), std::move(answer));
  });
}

void Process::find(const std::string& name, const std::string& class_name, Answer<ActorId> answer) {
  impl_->loop->post(
      [this, name, class_name, answer = std::move(answer)] { impl_->plane->find(name, class_name, answer); });
}

void Process::kill(ActorId actor, bool no_restart, Answer<bool> answer) {
  impl_->loop->post([this, actor, no_restart, answer = std::move(answer)] {
    impl_->flush_spawns();
    impl_->plane->kill(actor, no_restart, answer);
  });
}

void Process::nodes(Answer<std::vector<NodeSummary>> answer) {
  impl_->loop->post([this, answer = std::move(answer)] { impl_->plane->nodes(answer); });
}

void Process::resolve(ActorId actor, std::uint32_t after, Lane& lane) {
  impl_->loop->post([this, actor, after, &lane] {
    impl_->flush_spawns();
    impl_->plane->resolve(actor, after, lane);
  });
}

void Process::connect(std::shared_ptr<const Place> place, Lane& lane) {
  impl_->loop->post([this, place = std::move(place), &lane] { impl_->plane->connect(place, lane); });
}

}  // namespace troupe
