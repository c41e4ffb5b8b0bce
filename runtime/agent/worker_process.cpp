#include "runtime/agent/worker_process.h"

#include <sys/wait.h>
#include <csignal>

#include "core/base/resources.h"
#include "core/control/kj_error.h"
#include "core/os/process.h"

namespace troupe {
namespace {

constexpr std::size_t kLastErrors = 8;
// A process outside the worker's group may hold its pipes open; the worker's end is not delayed longer than
// this.
constexpr auto kDrain = 300 * kj::MILLISECONDS;
// A worker without a channel is of no use to anybody.
constexpr auto kWithoutChannel = 2 * kj::SECONDS;

std::uint64_t memory_of(wire::ActorSpec::Reader spec) {
  for (auto amount : spec.getOptions().getResources()) {
    if (amount.getName() == "memory") return static_cast<std::uint64_t>(amount.getUnits() / Resources::kOne);
  }
  return 0;
}

kj::PromiseFulfillerPair<void> pair() { return kj::newPromiseAndFulfiller<void>(); }

}  // namespace

WorkerProcess::WorkerProcess(Executor& loop, std::uint64_t process_id, std::uint64_t job_id, bool is_light,
                             std::string shown, OnLine line, OnEnd end)
    : process(process_id),
      job(job_id),
      light(is_light),
      label(std::move(shown)),
      loop_(loop),
      on_line_(std::move(line)),
      on_end_(std::move(end)),
      over_(nullptr) {
  auto paf = pair();
  tell_over_ = kj::mv(paf.fulfiller);
  over_ = paf.promise.fork();
}

void WorkerProcess::launched(Starter::Ends ends, wire::WorkerHost::Client host) {
  phase_ = Phase::launched;
  open_streams_ = 3;
  auto connection = kj::heap<RpcConnection>(kj::mv(ends.channel), kj::mv(host), true);
  auto weak = weak_from_this();
  loop_.spawn("watching a worker's channel", connection->on_disconnect().then([weak] {
    if (auto self = weak.lock()) self->channel_ended();
  }));
  channel_ = kj::mv(connection);
  auto read = [&](Lines& lines, bool is_error) {
    lines.start(
        [weak, is_error](std::string_view text) {
          if (auto self = weak.lock()) self->line(text, is_error);
        },
        [weak] {
          if (auto self = weak.lock()) self->stream_ended();
        });
  };
  out_ = std::move(ends.out);
  err_ = std::move(ends.err);
  read(*out_, false);
  read(*err_, true);
}

void WorkerProcess::started(pid_t pid) {
  if (over()) return;
  if (phase_ == Phase::launched) phase_ = Phase::running;
  pid_ = pid;  // it may have registered before this was told
  if (ending_) kill_group(pid_);
}

void WorkerProcess::registered(wire::Worker::Client worker) {
  // The message of its registration may overtake the launcher's answer.
  if (phase_ != Phase::ended) phase_ = Phase::registered;
  worker_ = kj::mv(worker);
  send_places();
}

void WorkerProcess::new_session(wire::Session::Client session) {
  KJ_IF_MAYBE (worker, worker_) {
    auto request = worker->newSessionRequest();
    request.setSession(kj::mv(session));
    loop_.spawn("telling a worker of its session", request.send().ignoreResult());
  }
}

void WorkerProcess::keep(wire::Endpoint::Reader where) {
  if (endpoint) return;
  endpoint = std::make_unique<capnp::MallocMessageBuilder>(64);
  endpoint->setRoot(where);
}

void WorkerProcess::place(const std::vector<wire::Placement::Reader>& placements) {
  for (auto one : placements) {
    auto spec = one.getSpec();
    actors[spec.getActor()] = {one.getIncarnation(), memory_of(spec)};
  }
  KJ_IF_MAYBE (worker, worker_) {
    auto request = worker->placeRequest();
    auto list = request.initPlacements(static_cast<unsigned>(placements.size()));
    for (unsigned i = 0; i < list.size(); ++i) list.setWithCaveats(i, placements[i]);
    loop_.spawn("placing actors", request.send().ignoreResult());
    return;
  }
  for (auto one : placements) {
    unsent_.push_back(std::make_unique<capnp::MallocMessageBuilder>());
    unsent_.back()->setRoot(one);
  }
}

void WorkerProcess::send_places() {
  KJ_IF_MAYBE (worker, worker_) {
    if (unsent_.empty() || ending_) return;
    auto request = worker->placeRequest();
    auto list = request.initPlacements(static_cast<unsigned>(unsent_.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list.setWithCaveats(i, unsent_[i]->getRoot<wire::Placement>().asReader());
    }
    unsent_.clear();
    loop_.spawn("placing actors", request.send().ignoreResult());
  }
}

kj::Promise<void> WorkerProcess::destroy(const std::vector<Placed>& gone) {
  for (auto one : gone) actors.erase(one.actor);
  KJ_IF_MAYBE (worker, worker_) {
    auto request = worker->destroyRequest();
    auto list = request.initActors(static_cast<unsigned>(gone.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list[i].setActor(gone[i].actor);
      list[i].setIncarnation(gone[i].incarnation);
    }
    // If the worker dies meanwhile, they are destroyed just as well.
    auto self = shared_from_this();
    return request.send().ignoreResult().catch_([self](kj::Exception&& failure) -> kj::Promise<void> {
      if (self->over() || self->dying() || failure.getType() == kj::Exception::Type::DISCONNECTED) {
        return self->when_over();
      }
      return kj::mv(failure);
    });
  }
  std::erase_if(unsent_, [&](const auto& message) {
    auto actor = message->template getRoot<wire::Placement>().getSpec().getActor();
    return actors.find(actor) == actors.end();
  });
  return kj::READY_NOW;
}

void WorkerProcess::kill(Error why) {
  if (over() || exited_) return;
  if (!ending_) ending_ = std::move(why);
  if (phase_ == Phase::waiting)
    finish();
  else if (pid_ > 0)
    kill_group(pid_);
}

void WorkerProcess::could_not_start(Error why) {
  if (over()) return;
  if (!ending_) ending_ = std::move(why);
  finish();
}

void WorkerProcess::exited(int wait_status) {
  if (over() || exited_) return;
  exited_ = true;
  wait_status_ = wait_status;
  if (open_streams_ == 0) return finish();
  auto weak = weak_from_this();
  loop_.spawn("reading a worker's last words", loop_.timer().afterDelay(kDrain).then([weak] {
    if (auto self = weak.lock()) self->finish();
  }));
}

void WorkerProcess::channel_ended() {
  stream_ended();
  if (over() || exited_) return;
  auto weak = weak_from_this();
  loop_.spawn("ending a worker", loop_.timer().afterDelay(kWithoutChannel).then([weak] {
    if (auto self = weak.lock())
      self->kill(Error(ErrorKind::actor_died, "the worker closed its channel to the agent"));
  }));
}

void WorkerProcess::stream_ended() {
  if (--open_streams_ == 0 && exited_) finish();
}

void WorkerProcess::line(std::string_view text, bool is_error) {
  if (is_error) {
    last_errors_.emplace_back(text);
    if (last_errors_.size() > kLastErrors) last_errors_.pop_front();
  }
  on_line_(*this, text);
}

// Callers of finish() may be streams and tasks of this object, so what it owns is destroyed in a turn of its
// own.
void WorkerProcess::finish() {
  if (over()) return;
  if (out_) out_->drain();
  if (err_) err_->drain();
  phase_ = Phase::ended;
  Error how = how_it_ended();
  loop_.post([self = shared_from_this()] {
    self->out_.reset();
    self->err_.reset();
    self->worker_ = nullptr;
    self->client = nullptr;
    self->channel_ = nullptr;
  });
  on_end_(*this, how);
  unsent_.clear();
  tell_over_->fulfill();
}

Error WorkerProcess::how_it_ended() const {
  if (ending_) return *ending_;
  Error error(ErrorKind::actor_died, "worker process " + std::to_string(process) + " (pid " +
                                         std::to_string(pid_) + ") " + describe_exit(wait_status_));
  if (WIFSIGNALED(wait_status_) && WTERMSIG(wait_status_) == SIGKILL) {
    error.message += "; if nobody sent it, the system may have run out of memory";
  }
  if (!last_errors_.empty()) {
    error.message += "; it last wrote:";
    for (const auto& text : last_errors_) error.message += "\n  " + text;
  }
  return error;
}

}  // namespace troupe
