#include "runtime/agent/agent_state.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/config/home.h"
#include "core/control/kj_error.h"
#include "core/os/process.h"
#include "runtime/agent/machine.h"
#include "runtime/agent/servants.h"

namespace troupe {
namespace {

FaultPoint crash_after_place("agent.crash.after_place"), crash_in_destroy("agent.crash.in_destroy");

constexpr std::size_t kOldLogs = 20;
// A Unix socket's path has 107 bytes; workers add a file name.
constexpr std::size_t kLongestFolder = 80;

std::string text(capnp::Text::Reader from) { return std::string(from.cStr(), from.size()); }

std::string short_name(std::string class_name) {
  auto colon = class_name.rfind(':');
  return colon == class_name.npos ? class_name : class_name.substr(colon + 1);
}

}  // namespace

AgentState::AgentState(Executor& loop, NodeAgent::Options options)
    : loop_(loop),
      options_(std::move(options)),
      host_id_(options_.host_id),
      name_(options_.name),
      journals_(loop, options_.state + "/journals",
                [this](std::uint64_t actor) { return actors_.count(actor) > 0; }),
      events_(loop, [this](std::uint64_t report) { this->recorded(report); }),
      memory_(loop, options_.memory, workers_) {
  if (options_.launcher.empty()) options_.launcher = own_executable();
}

AgentState::~AgentState() noexcept(false) {
  std::error_code ignored;
  if (!sockets_.empty()) std::filesystem::remove_all(sockets_, ignored);
}

Result<void> AgentState::prepare() {
  if (!sockets_.empty()) return {};  // a join that failed comes again
  if (auto made = make_private_directory(options_.state); !made) return made.error();
  logs_ = options_.state + "/logs";
  if (auto made = make_private_directory(logs_); !made) return made.error();
  std::string sockets = options_.state + "/sockets";
  if (sockets.size() > kLongestFolder) {
    char name[] = "/tmp/troupe-sockets-XXXXXX";
    if (::mkdtemp(name) == nullptr) return system_error(errno, "cannot make a folder in /tmp");
    sockets = name;
  } else {
    std::error_code ignored;
    std::filesystem::remove_all(sockets, ignored);
    if (auto made = make_private_directory(sockets); !made) return made.error();
  }
  sockets_ = std::move(sockets);
  memory_.start();
  return {};
}

void AgentState::joined(wire::Membership::Client membership) {
  membership_ = membership;
  journals_.watch(membership);
  events_.connect(kj::mv(membership));
  for (auto& [id, worker] : workers_) open_session(*worker);
}

void AgentState::named(std::uint64_t node, std::string name) {
  node_ = node;
  name_ = std::move(name);
  is_named_ = true;
  for (Command& command : std::exchange(commands_, {})) {
    auto done = std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(kj::mv(command.done));
    loop_.spawn("a command of the head",
                command.run().then([done] { (*done)->fulfill(); },
                                   [done](kj::Exception&& failure) { (*done)->reject(kj::mv(failure)); }));
  }
}

kj::Promise<void> AgentState::in_order(std::uint64_t heads_lost, kj::Function<kj::Promise<void>()> command) {
  if (heads_lost != heads_lost_) {
    return kj_exception(Error(ErrorKind::unavailable, "this node has left that head"));
  }
  if (is_named_) return command();
  auto paf = kj::newPromiseAndFulfiller<void>();
  commands_.push_back({kj::mv(command), kj::mv(paf.fulfiller)});
  return kj::mv(paf.promise);
}

void AgentState::head_lost() {
  events_.disconnect();
  membership_ = nullptr;
  is_named_ = false;
  ++heads_lost_;
  commands_.clear();
}

std::vector<std::uint64_t> AgentState::job_ids() const {
  std::vector<std::uint64_t> ids;
  for (auto& [id, job] : jobs_) ids.push_back(id);
  return ids;
}

// A worker that was there before: its session leads to the head of now.
void AgentState::open_session(WorkerProcess& worker) {
  KJ_IF_MAYBE (membership, membership_) {
    KJ_IF_MAYBE (client, worker.client) {
      auto request = membership->workerSessionRequest();
      request.setProcess(worker.process);
      request.setClient(*client);
      worker.new_session(request.send().getSession());
    }
  }
}

void AgentState::remember_end(std::uint64_t actor, std::uint32_t incarnation) {
  ended_[actor] = incarnation;
  endings_.push_back({events_.next_report(), actor, incarnation});
}

void AgentState::recorded(std::uint64_t report) {
  std::erase_if(ended_processes_, [report](const auto& one) { return one.second <= report; });
  for (; !endings_.empty() && endings_.front().report <= report; endings_.pop_front()) {
    auto at = ended_.find(endings_.front().actor);
    if (at != ended_.end() && at->second == endings_.front().incarnation) ended_.erase(at);
  }
}

void AgentState::start_job(JobDescription description) {
  if (stopping_ || jobs_.count(description.id) > 0) return;
  auto weak = weak_from_this();
  Job::Hooks hooks;
  hooks.parameters = [this](const WorkerProcess& worker) { return parameters_of(worker); };
  hooks.host = [weak](const WorkerProcess& worker) -> wire::WorkerHost::Client {
    return kj::heap<WorkerHostServant>(weak, worker.process);
  };
  hooks.output = [this](Job& job, std::string_view line) { zygote_line(job, line); };
  hooks.start = options_.starter;
  hooks.patience = options_.patience;
  hooks.launcher = options_.launcher;
  auto id = description.id;
  jobs_[id] = std::make_unique<Job>(loop_, std::move(description),
                                    logs_ + "/job-" + std::to_string(id) + ".log", std::move(hooks));
}

void AgentState::place(capnp::List<wire::Placement>::Reader placements) {
  // By process: each worker gets one message.
  std::vector<std::pair<WorkerProcess*, std::vector<wire::Placement::Reader>>> groups;
  std::unordered_map<std::uint64_t, std::size_t> group_of;
  for (auto one : placements) {
    auto actor = one.getSpec().getActor();
    auto incarnation = one.getIncarnation();
    if (auto known = actors_.find(actor);
        known != actors_.end() && known->second.incarnation >= incarnation) {
      tell_alive(actor, known->second);
      continue;
    }
    if (auto ended = ended_.find(actor); ended != ended_.end() && ended->second >= incarnation) continue;
    auto job = jobs_.find(one.getJob());
    if (stopping_ || job == jobs_.end() || job->second->ended()) {
      remember_end(actor, incarnation);
      events_.actor_failed(
          actor, incarnation,
          Error(ErrorKind::unavailable, stopping_ ? "the node is ending" : "its job is not on the node"));
      continue;
    }
    if (ended_processes_.count(one.getProcess()) > 0) {
      remember_end(actor, incarnation);
      events_.actor_failed(actor, incarnation, Error(ErrorKind::actor_died, "its process has just ended"));
      continue;
    }
    auto [at, fresh] = group_of.try_emplace(one.getProcess(), groups.size());
    if (fresh) groups.emplace_back(&worker_for(one, *job->second), std::vector<wire::Placement::Reader>());
    groups[at->second].second.push_back(one);
    actors_[actor] = {incarnation, one.getProcess()};
  }
  for (auto& [worker, list] : groups) {
    worker->place(list);
    if (std::exchange(worker->wanted, true)) continue;
    expect_registration(*worker);
    jobs_[worker->job]->start(worker->shared_from_this());
  }
  crash_after_place.crash(&loop_);
}

WorkerProcess& AgentState::worker_for(wire::Placement::Reader placement, Job& job) {
  auto& worker = workers_[placement.getProcess()];
  if (worker) return *worker;
  auto spec = placement.getSpec();
  bool light = spec.getOptions().getIsolation() == wire::Isolation::LIGHT;
  std::string label = std::to_string(placement.getProcess()) + " ";
  std::string name = text(spec.getOptions().getName());
  label += light ? "light" : !name.empty() ? name : short_name(text(spec.getClassName()));
  std::replace(label.begin(), label.end(), '\n', ' ');
  worker = std::make_shared<WorkerProcess>(
      loop_, placement.getProcess(), job.description().id, light, std::move(label),
      [this](WorkerProcess& from, std::string_view line) { this->line(from, line); },
      [this](WorkerProcess& gone, const Error& how) { worker_ended(gone, how); });
  worker->limit = LineLimit(options_.lines_per_second);
  if (!light) {
    for (auto slot : placement.getGpus()) worker->gpus.push_back(slot);
    for (auto amount : spec.getOptions().getResources()) {
      if (amount.getName() == "gpu") worker->gpu_units = std::min(amount.getUnits(), Resources::kOne);
    }
  }
  return *worker;
}

void AgentState::expect_registration(WorkerProcess& worker) {
  // Counted from the wish on, so it covers the zygote's patience and a queue of other workers before it.
  auto patience = 2 * options_.patience;
  loop_.spawn("waiting for a worker",
              loop_.timer().afterDelay(patience).then([weak = worker.weak_from_this(), patience] {
                auto self = weak.lock();
                if (!self || self->phase() == WorkerProcess::Phase::registered) return;
                self->kill(Error(ErrorKind::unavailable, "worker process " + std::to_string(self->process) +
                                                             " did not register with its agent in " +
                                                             std::to_string(patience / kj::SECONDS) + " s"));
              }));
}

WorkerStart AgentState::parameters_of(const WorkerProcess& worker) const {
  WorkerStart start;
  start.process = worker.process;
  start.job = worker.job;
  start.node = node_;
  start.node_name = name_;
  start.host_id = host_id_;
  start.isolation = worker.light ? 1 : 0;
  start.lanes = worker.light
                    ? static_cast<int>(std::max<std::int64_t>(
                          1, std::min<std::int64_t>(std::thread::hardware_concurrency(),
                                                    options_.resources.units("cpu") / Resources::kOne)))
                    : 1;
  start.journals = journals_.folder();
  start.socket_dir = sockets_;
  start.tcp_host = options_.tcp_host;
  start.token_hex = options_.token.hex();
  // On a node with GPUs a worker sees its own slots only.
  if (options_.resources.units("gpu") > 0) {
    start.set_devices = true;
    start.devices = devices_of(worker.gpus, std::getenv("CUDA_VISIBLE_DEVICES"));
    start.gpu_units = worker.gpu_units;
  }
  return start;
}

kj::Promise<void> AgentState::destroy(capnp::List<wire::Incarnation>::Reader list) {
  crash_in_destroy.crash(&loop_);
  std::unordered_map<std::uint64_t, std::vector<WorkerProcess::Placed>> light;
  kj::Vector<kj::Promise<void>> done;
  for (auto one : list) {
    auto at = actors_.find(one.getActor());
    if (at == actors_.end() || at->second.incarnation != one.getIncarnation()) continue;
    auto worker = workers_.find(at->second.process);
    if (worker == workers_.end()) {
      actors_.erase(at);
    } else if (worker->second->light) {
      light[worker->first].push_back({one.getActor(), one.getIncarnation()});
      actors_.erase(at);
    } else {
      auto process = worker->second;  // kill() may end it at once and take it out of the map
      process->kill(Error(ErrorKind::actor_died, "it was told to end"));
      done.add(process->when_over());
    }
  }
  for (auto& [process, actors] : light) done.add(workers_[process]->destroy(actors));
  return kj::joinPromises(done.releaseAsArray());
}

kj::Promise<void> AgentState::end_job(std::uint64_t id) {
  auto at = jobs_.find(id);
  if (at == jobs_.end()) return kj::READY_NOW;
  return at->second->end().then([self = shared_from_this(), id] {
    auto job = self->jobs_.find(id);
    if (job == self->jobs_.end()) return;
    job->second->log_file().flush();
    self->old_logs_.push_back(job->second->log_file().path());
    self->forget_logs_of_old_jobs();
    // It may be in the middle of telling of its end.
    self->loop_.post([old = std::shared_ptr<Job>(std::move(job->second))] {});
    self->jobs_.erase(job);
  });
}

kj::Promise<void> AgentState::end_workers(const std::string& reason) {
  log(Level::warning, "ending the node's workers: " + reason);
  kj::Vector<kj::Promise<void>> done;
  for (auto& [id, job] : jobs_) done.add(end_job(id));
  return kj::joinPromises(done.releaseAsArray()).then([self = shared_from_this()] {
    self->node_ = 0;
    self->events_.forget();
    self->actors_.clear();
    self->ended_.clear();
    self->ended_processes_.clear();
    self->endings_.clear();
  });
}

kj::Promise<void> AgentState::end_all(const std::string& reason) {
  stopping_ = true;
  log(Level::info, "ending the node's processes: " + reason);
  kj::Vector<kj::Promise<void>> done;
  for (auto& [id, job] : jobs_) done.add(job->end());
  auto self = shared_from_this();
  auto gone = kj::joinPromises(done.releaseAsArray()).then([self] { return self->journals_.settle(); });
  return gone.then([self] {
    self->events_.disconnect();
    self->events_.forget();
    self->membership_ = nullptr;
    self->loop_.post([self] {
      self->jobs_.clear();
      self->workers_.clear();
    });
    if (self->options_.reaps_orphans) kill_children_except({});
  });
}

Result<std::string> AgentState::logs(std::uint64_t job, std::uint64_t process, std::uint32_t lines) {
  std::string prefix = process != 0 ? std::to_string(process) + " " : "";
  if (auto at = jobs_.find(job); at != jobs_.end()) return at->second->log_file().tail(prefix, lines);
  std::string path = logs_ + "/job-" + std::to_string(job) + ".log";
  if (::access(path.c_str(), R_OK) != 0) return std::string();
  return LogFile(path).tail(prefix, lines);
}

void AgentState::register_worker(std::uint64_t process, wire::Worker::Client worker,
                                 wire::JobClient::Client client, std::uint64_t fingerprint,
                                 std::uint64_t& job) {
  auto at = workers_.find(process);
  if (at == workers_.end() || at->second->dying() ||
      at->second->phase() == WorkerProcess::Phase::registered) {
    kj::throwFatalException(
        kj_exception(Error(ErrorKind::unavailable, "this worker is not expected any more")));
  }
  auto self = at->second;
  const auto& description = jobs_[self->job]->description();
  if (fingerprint != description.fingerprint) {
    std::error_code unknown;
    auto here =
        std::filesystem::read_symlink("/proc/" + std::to_string(self->pid()) + "/exe", unknown).string();
    if (here.empty()) here = description.executable;
    Error error(ErrorKind::mismatch,
                here + " on node " + name_ + " is another build than the driver's " + description.executable +
                    " of job " + std::to_string(self->job) +
                    ": copy the driver's program to the node, and start the driver again if it "
                    "was rebuilt while it ran");
    self->kill(error);
    kj::throwFatalException(kj_exception(error));
  }
  if (stopping_) kj::throwFatalException(kj_exception(Error(ErrorKind::unavailable, "the node is ending")));
  job = self->job;
  self->client = kj::mv(client);
  // Placements and its session leave after the answer to this call.
  loop_.spawn("registering a worker",
              kj::evalLast([this, alive = weak_from_this(), self, worker = kj::mv(worker)]() mutable {
                if (alive.expired() || self->over()) return;
                self->registered(kj::mv(worker));
                open_session(*self);
              }));
}

void AgentState::tell_alive(std::uint64_t actor, const ActorPlace& place) {
  auto worker = workers_.find(place.process);
  if (!place.lane || worker == workers_.end() || !worker->second->endpoint) return;
  events_.actor_alive(actor, place.incarnation,
                      worker->second->endpoint->getRoot<wire::Endpoint>().asReader(), *place.lane);
}

void AgentState::worker_report(std::uint64_t process, capnp::List<wire::NodeEvent>::Reader events) {
  auto at = workers_.find(process);
  if (at == workers_.end()) return;
  auto worker = at->second;
  events_.forward(events);
  for (auto event : events) {
    bool failed = event.which() == wire::NodeEvent::ACTOR_FAILED;
    if (!failed && event.which() != wire::NodeEvent::ACTOR_ALIVE) continue;
    auto of = failed ? event.getActorFailed().getOf() : event.getActorAlive().getOf();
    auto known = actors_.find(of.getActor());
    if (known == actors_.end() || known->second.incarnation != of.getIncarnation()) continue;
    if (!failed) {
      auto endpoint = event.getActorAlive().getEndpoint();
      known->second.lane = endpoint.getLane();
      worker->keep(endpoint);
      continue;
    }
    remember_end(of.getActor(), of.getIncarnation());
    actors_.erase(known);
    worker->actors.erase(of.getActor());
    // Its process has nothing left to do.
    if (!worker->light) worker->kill(read_failure(event.getActorFailed().getFailure()));
  }
}

void AgentState::worker_ended(WorkerProcess& worker, const Error& how) {
  auto keep = worker.shared_from_this();
  for (const auto& [actor, hosted] : worker.actors) {
    auto at = actors_.find(actor);
    if (at == actors_.end() || at->second.process != worker.process) continue;
    remember_end(actor, hosted.incarnation);
    actors_.erase(at);
  }
  workers_.erase(worker.process);
  // A worker that was killed could not remove it itself.
  std::error_code ignored;
  std::filesystem::remove(sockets_ + "/w" + std::to_string(worker.process), ignored);
  events_.dropped(worker.job, worker.process, worker.limit.take_dropped());
  Error error = how;
  error.node = {node_};
  ended_processes_[worker.process] = events_.next_report();
  events_.process_ended(worker.process, error);
}

void AgentState::line(WorkerProcess& worker, std::string_view text) {
  auto job = jobs_.find(worker.job);
  if (job == jobs_.end()) return;
  job->second->log_file().append(worker.label + ": ", text);
  flush_logs_later();
  if (worker.limit.pass(std::chrono::steady_clock::now())) events_.output(worker.job, worker.process, text);
}

void AgentState::zygote_line(Job& job, std::string_view text) {
  job.log_file().append("0 zygote: ", text);
  flush_logs_later();
  if (job.limit().pass(std::chrono::steady_clock::now())) events_.output(job.description().id, 0, text);
}

void AgentState::flush_logs_later() {
  if (std::exchange(flush_posted_, true)) return;
  loop_.post([weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->flush_posted_ = false;
    for (auto& [id, job] : self->jobs_) job->log_file().flush();
  });
}

void AgentState::tell_of_dropped_lines() {
  for (auto& [id, worker] : workers_) events_.dropped(worker->job, id, worker->limit.take_dropped());
  for (auto& [id, job] : jobs_) events_.dropped(id, 0, job->limit().take_dropped());
}

void AgentState::forget_logs_of_old_jobs() {
  while (old_logs_.size() > kOldLogs) {
    std::error_code ignored;
    std::filesystem::remove(old_logs_.front(), ignored);
    for (int age = 1; age < LogFile::kFiles; ++age) {
      std::filesystem::remove(old_logs_.front() + "." + std::to_string(age), ignored);
    }
    old_logs_.pop_front();
  }
}

}  // namespace troupe
