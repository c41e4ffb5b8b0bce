#include "runtime/agent/job.h"

#include <utility>

#include "core/base/fault_point.h"

namespace troupe {
namespace {

FaultPoint launch_fails("agent.launch.fail");

constexpr std::size_t kLastErrors = 8;
constexpr auto kEndPatience = 4 * kj::SECONDS;

}  // namespace

Job::Job(Executor& loop, JobDescription description, std::string log, Hooks hooks)
    : loop_(loop), description_(std::move(description)), log_(std::move(log)), hooks_(std::move(hooks)) {}

void Job::start(std::shared_ptr<WorkerProcess> worker) {
  waiting_.push_back(std::move(worker));
  pump();
}

void Job::pump() {
  if (ended_ || waiting_.empty()) return;
  if (launching_ == Launching::off) start_launcher();
  while (launching_ == Launching::ready && !waiting_.empty() && launched_.size() < kAtOnce) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    if (!next->over()) launch(std::move(next));
  }
}

void Job::start_launcher() {
  SpawnOptions options;
  options.executable = executes_ ? hooks_.launcher : description_.executable;
  options.arguments = {executes_ ? hooks_.launcher : description_.executable};
  if (executes_) options.arguments.push_back(description_.executable);
  for (const auto& argument : description_.arguments) options.arguments.push_back(argument);
  options.environment = overlay_environment(
      description_.environment,
      {kRoleVariable, kWorkerVariable, kZygoteVariable, kLauncherVariable, "TROUPE_TOKEN", "TROUPE_HEAD"});
  if (executes_)
    options.environment.push_back(std::string(kLauncherVariable) + "=" + description_.executable);
  options.directory = description_.directory;
  Starter::Callbacks callbacks;
  callbacks.ready = [this] {
    launching_ = Launching::ready;
    pump();
  };
  callbacks.cannot_fork = [this](int threads) {
    executes_ = switch_ = true;
    log_.append("0 zygote: ",
                "this program has " + std::to_string(threads) +
                    " threads before main: its workers are executed one by one, which is slower");
  };
  callbacks.started = [this](std::uint64_t token, pid_t pid) {
    auto at = launched_.find(token);
    if (at == launched_.end()) return;
    auto worker = std::move(at->second);
    launched_.erase(at);
    running_[pid] = worker;
    worker->started(pid);
    pump();
  };
  callbacks.failed = [this](std::uint64_t token, Error why) {
    auto at = launched_.find(token);
    if (at == launched_.end()) return;
    auto worker = std::move(at->second);
    launched_.erase(at);
    worker->could_not_start(std::move(why));
    pump();
  };
  callbacks.ended = [this](pid_t pid, int wait_status) {
    auto at = running_.find(pid);
    if (at == running_.end()) return;
    auto worker = std::move(at->second);
    running_.erase(at);
    worker->exited(wait_status);
  };
  callbacks.gone = [this](int wait_status) { launcher_gone(wait_status); };
  callbacks.line = [this](std::string_view line, bool is_error) {
    if (is_error) {
      last_errors_.emplace_back(line);
      if (last_errors_.size() > kLastErrors) last_errors_.pop_front();
    }
    hooks_.output(*this, line);
  };
  auto started = hooks_.start(std::move(options), std::move(callbacks));
  if (!started) {
    Error error = started.error();
    if (error.kind == ErrorKind::not_found || error.kind == ErrorKind::invalid_argument) {
      error.message += "; the program must lie at the same path on every node";
    }
    return fail_waiting(error);
  }
  launcher_ = std::move(*started);
  launching_ = Launching::coming;
  last_errors_.clear();
  arm_patience();
}

void Job::arm_patience() {
  loop_.spawn("waiting for a zygote",
              loop_.timer()
                  .afterDelay(hooks_.patience)
                  .then([this, attempt = ++attempt_, alive = std::weak_ptr<int>(alive_)] {
                    if (alive.expired() || attempt != attempt_) return;
                    if (launching_ != Launching::coming) return;
                    too_slow_ = true;
                    launcher_->kill_parent();
                  }));
}

void Job::launch(std::shared_ptr<WorkerProcess> worker) {
  if (launch_fails.fires()) {
    return worker->could_not_start(
        Error(ErrorKind::resource_exhausted, "a fault point kept it from starting"));
  }
  auto ends = launcher_->launch(worker->process, hooks_.parameters(*worker));
  if (!ends) return worker->could_not_start(ends.error());
  launched_[worker->process] = worker;
  worker->kill_group = [this, alive = std::weak_ptr<int>(alive_)](pid_t pid) {
    if (!alive.expired() && launcher_) launcher_->kill(pid);
  };
  worker->launched(std::move(*ends), hooks_.host(*worker));
}

void Job::launcher_gone(int wait_status) {
  bool was_ready = launching_ == Launching::ready;
  bool retries = std::exchange(switch_, false);
  launcher_->drain();
  Error why = no_launcher(wait_status);
  launching_ = Launching::off;
  ++attempt_;
  auto old = std::shared_ptr<Starter>(std::move(launcher_));
  for (auto& [pid, worker] : std::exchange(running_, {})) {
    orphans_[pid] = worker;
    loop_.spawn("ending an orphan",
                old->kill_orphan(pid).then(
                    [this, old, pid = pid, worker = worker, alive = std::weak_ptr<int>(alive_)](int status) {
                      if (!alive.expired()) orphans_.erase(pid);
                      worker->exited(status);
                    }));
  }
  loop_.post([old] {});
  auto lost = std::move(launched_);
  launched_.clear();
  for (auto& [token, worker] : lost) worker->could_not_start(why);
  KJ_IF_MAYBE (waiter, tell_gone_) {
    (*waiter)->fulfill();
    tell_gone_ = nullptr;
  }
  if (ended_) return;
  // A launcher that served and died is replaced; one that never came is an error, but for a program with
  // threads.
  if (was_ready || retries)
    pump();
  else
    fail_waiting(why);
}

void Job::fail_waiting(const Error& why) {
  auto waiting = std::move(waiting_);
  waiting_.clear();
  for (auto& worker : waiting) worker->could_not_start(why);
}

Error Job::no_launcher(int wait_status) const {
  std::string text = "the job's program " + description_.executable;
  if (launching_ == Launching::ready) text = "the parent process of the job's workers";
  if (too_slow_) {
    text += " did not make a troupe::Runtime in time: make it first in main";
  } else {
    text += " " + describe_exit(wait_status);
    if (launching_ != Launching::ready) text += " before it made a troupe::Runtime: make it first in main";
  }
  if (!last_errors_.empty()) text += "; it last wrote:";
  for (const auto& line : last_errors_) text += "\n  " + line;
  return Error(ErrorKind::actor_died, text);
}

kj::Promise<void> Job::end() {
  KJ_IF_MAYBE (end, end_) return end->addBranch();
  ended_ = true;
  Error over(ErrorKind::actor_died, "its job has ended");
  fail_waiting(over);
  kj::Vector<kj::Promise<void>> gone;
  for (auto& [token, worker] : launched_) gone.add(worker->when_over());
  for (auto& [pid, worker] : running_) gone.add(worker->when_over());
  for (auto& [pid, worker] : orphans_) gone.add(worker->when_over());
  if (launcher_) {
    auto paf = kj::newPromiseAndFulfiller<void>();
    tell_gone_ = kj::mv(paf.fulfiller);
    gone.add(kj::mv(paf.promise));
    launcher_->end();
    loop_.spawn("ending a job",
                loop_.timer().afterDelay(kEndPatience).then([this, alive = std::weak_ptr<int>(alive_)] {
                  if (!alive.expired() && launcher_) launcher_->kill_parent();
                }));
  }
  auto& end = end_.emplace(kj::joinPromises(gone.releaseAsArray()).fork());
  return end.addBranch();
}

}  // namespace troupe
