#include "runtime/process/process.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <thread>

#include "core/base/log.h"
#include "core/base/throws_error.h"
#include "core/config/head_connection.h"
#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "core/control/loop.h"
#include "runtime/device/devices.h"
#include "runtime/objects/shared_tensors.h"
#include "runtime/process/driver_session.h"
#include "runtime/process/fingerprint.h"
#include "runtime/process/job_info.h"
#include "runtime/process/link_listener.h"
#include "runtime/process/object_store.h"
#include "runtime/process/participant.h"
#include "runtime/process/worker_host.h"

namespace troupe {
namespace {

std::atomic<Process*> the_process{nullptr};

[[noreturn]] void end_group() {
  ::kill(0, SIGKILL);
  ::_exit(1);
}

[[noreturn]] void give_up(const std::string& why) {
  log(Level::error, why);
  ::_exit(1);
}

}  // namespace

// Order of destruction: lanes first (their threads use everything else), then, on the control thread, plane
// and connection, then the loop.
class Process::Impl {
 public:
  // Lives on the control thread.
  std::unique_ptr<ControlLoop> loop;
  Participant participant;
  std::unique_ptr<DriverSession> session;
  // A worker's:
  std::unique_ptr<LinkListener> links;
  std::unique_ptr<WorkerHost> host;
  kj::Own<RpcConnection> agent;
  std::thread control;  // a driver's; a worker's control thread is its main thread

  std::optional<std::string> head_option;
  std::string program;
  std::vector<std::string> arguments;
  NodeId node;
  std::string node_name, tcp_host;
  std::optional<Token> token;

  Participant::Outside outside(const Token& token);
  // The driver's control thread.
  void run_driver(const Token& token, std::promise<Result<void>>& ready);
  DriverSession::Hooks way_to_head();
};

Process::Process(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  the_process = this;
  share_tensors();
}

Process& Process::get() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) {
    throw ThrowsError(Error(ErrorKind::invalid_argument,
                            "no troupe::Runtime exists: make one at the start of main, and keep it"));
  }
  return *process;
}

bool Process::running() { return the_process.load(std::memory_order_acquire) != nullptr; }

Participant::Outside Process::Impl::outside(const Token& token) {
  Participant::Outside outside;
  outside.connect = [this, token](const Place& place, const LinkIdentity& self, Lane& lane) {
    return open_link(*loop, place, self, token, lane.doorbell());
  };
  outside.fail = [this](const Error& why) {
    log(Level::error, "this program ends: " + why.describe());
    std::fflush(nullptr);
    if (!host) ::_exit(1);
  };
  return outside;
}

// ---- the driver ----

void Process::Impl::run_driver(const Token& token, std::promise<Result<void>>& ready) {
  loop = std::make_unique<ControlLoop>();
  auto end = [this] {
    leave_store();
    session = nullptr;
    participant.stop();
    loop = nullptr;
  };
  try {
    LinkIdentity self;
    self.fingerprint = fingerprint();
    self.host_id = host_id();
    participant.start(*loop, self, outside(token));
    use_driver_store(*loop, token, participant);
    session = std::make_unique<DriverSession>(*loop, participant.plane(), way_to_head());
    session->enter().wait(loop->scope());
  } catch (const kj::Exception& e) {
    end();
    ready.set_value(error_of(e));
    return;
  }
  ready.set_value(Result<void>());
  loop->run();
  end();
}

DriverSession::Hooks Process::Impl::way_to_head() {
  DriverSession::Hooks hooks;
  hooks.connect = [this] { return find_head(*loop, head_option); };
  hooks.describe = [this](wire::JobInfo::Builder to) {
    write_job_info(to, program, arguments, participant.identity());
  };
  hooks.client = [this] { return participant.plane().client(); };
  hooks.opened = [this](JobId job, ProcessId process) { participant.identify(job, process); };
  return hooks;
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
  impl->token = *token;
  impl->control = std::thread([&impl = *impl, &ready, token = *token] { impl.run_driver(token, ready); });
  auto result = started.get();
  if (!result) {
    impl->control.join();
    return result.error();
  }
  auto& lanes = impl->participant.lanes();
  auto& directory = impl->participant;
  auto process = std::unique_ptr<Process>(new Process(std::move(impl)));
  LaneOptions lane;
  lane.drivable = true;
  lane.poll = options.poll;
  lanes.push_back(std::make_unique<Lane>(lane, directory));
  lanes.front()->start();
  return process;
}

Process::~Process() {
  auto& lanes = impl_->participant.lanes();
  for (auto& lane : lanes) lane->stop("the program leaves the cluster");
  if (impl_->control.joinable()) {
    impl_->loop->stop();
    impl_->control.join();
  }
  the_process = nullptr;
  lanes.clear();
}

// ---- a worker ----

void Process::run_worker(const WorkerStart& start, const ProcessOptions& options) {
  auto token = Token::parse(start.token_hex);
  auto impl = std::make_unique<Impl>();
  Impl& i = *impl;
  i.loop = std::make_unique<ControlLoop>();
  LinkIdentity self;
  self.process = {start.process};
  self.job = {start.job};
  self.fingerprint = fingerprint();
  self.host_id = start.host_id;
  i.node = {start.node};
  i.node_name = start.node_name;
  i.tcp_host = start.tcp_host.empty() ? "127.0.0.1" : start.tcp_host;
  log_to("worker " + std::to_string(start.process));
  if (start.set_devices)
    Devices::set_share(static_cast<double>(start.gpu_units) / static_cast<double>(Resources::kOne));
  new Process(std::move(impl));  // to the end of the program
  auto& lanes = i.participant.lanes();
  int count = std::max(1, std::min(start.lanes, 64));
  for (int n = 0; n < count; ++n) {
    LaneOptions lane;
    lane.index = n;
    lane.hand_off = start.isolation != 0;
    lane.poll = options.poll;
    lanes.push_back(std::make_unique<Lane>(lane, i.participant));
    lanes.back()->start();
  }
  if (!token) {
    log(Level::error, "the agent gave no valid token: " + token.error().message);
    ::_exit(2);
  }
  i.token = *token;
  i.participant.start(*i.loop, self, i.outside(*token));
  use_worker_store(*i.loop, *token, start.socket_dir);
  i.host = std::make_unique<WorkerHost>(*i.loop, i.participant, start);
  i.links = std::make_unique<LinkListener>(*i.loop, self, *token, lanes,
                                           [&host = *i.host](std::uint16_t lane, std::unique_ptr<Link> link) {
                                             host.take_link(lane, std::move(link));
                                           });
  auto place = i.links->listen(start);
  if (!place) give_up(place.error().message);
  i.agent = kj::heap<RpcConnection>(kj::heap<SocketStream>(*i.loop, UniqueFd(start.channel_fd)));
  // Nothing that this process or its actors started survives its agent.
  i.loop->spawn("channel", i.agent->on_disconnect().then([] { end_group(); }));
  i.host->start(*place, i.agent->bootstrap().castAs<wire::WorkerHost>(), give_up);
  i.loop->run();
  ::_exit(0);  // not reached: the agent's end kills the process group
}

// ---- requests ----

JobId Process::job() const { return impl_->participant.identity().job; }
NodeId Process::node() const { return impl_->node; }
const std::string& Process::node_name() const { return impl_->node_name; }
const std::string& Process::tcp_host() const { return impl_->tcp_host; }
const Token& Process::token() const { return *impl_->token; }

Lane* Process::lane_at(std::uint16_t index) { return impl_->participant.lane_at(index); }

Lane& Process::default_lane() {
  Lane* here = Lane::current();
  return here != nullptr ? *here : *impl_->participant.lanes().front();
}

ActorId Process::spawn(SpawnRequest request) { return impl_->participant.spawn(std::move(request)); }

void Process::spawn_named(SpawnRequest request, Answer<ActorId> answer) {
  impl_->participant.spawn_named(std::move(request), std::move(answer));
}

void Process::find(const std::string& name, const std::string& class_name, Answer<ActorId> answer) {
  impl_->participant.find(name, class_name, std::move(answer));
}

void Process::kill(ActorId actor, bool no_restart, Answer<bool> answer) {
  impl_->participant.kill(actor, no_restart, std::move(answer));
}

void Process::nodes(Answer<std::vector<NodeSummary>> answer) { impl_->participant.nodes(std::move(answer)); }

void Process::on_failure(ActorId owner, FailureHandler handler) {
  impl_->participant.on_failure(owner, std::move(handler));
}

std::uint64_t Process::new_group() { return impl_->participant.new_group(); }

void Process::join_group(GroupJoinRequest request, GroupJoined joined, GroupBroken broken) {
  impl_->participant.join_group(std::move(request), std::move(joined), std::move(broken));
}

void Process::post_to_group(GroupPostRequest request, GroupPosted posted) {
  impl_->participant.post_to_group(std::move(request), std::move(posted));
}

void Process::leave_group(std::uint64_t group, ActorId actor, std::uint32_t incarnation) {
  impl_->participant.leave_group(group, actor, incarnation);
}

}  // namespace troupe
