#include "tests/sim/workers.h"

#include <signal.h>

#include <set>

namespace troupe::sim {
namespace {

constexpr int kKilled = SIGKILL;

class SimLines final : public Lines {
 public:
  struct Pipe {
    Line on_line;
    End on_end;
    bool ended = false;
  };
  explicit SimLines(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
  ~SimLines() override {
    pipe_->on_line = nullptr;
    pipe_->on_end = nullptr;
  }
  void start(Line on_line, End on_end) override {
    pipe_->on_line = std::move(on_line);
    pipe_->on_end = std::move(on_end);
  }
  void drain() override {}

 private:
  std::shared_ptr<Pipe> pipe_;
};

void end_lines(SimLines::Pipe& pipe) {
  if (std::exchange(pipe.ended, true)) return;
  auto done = std::move(pipe.on_end);
  pipe.on_end = nullptr;
  if (done) done();
}

}  // namespace

// A zygote. Its notices reach the agent as work posted to the agent's process.
struct Workers::State : std::enable_shared_from_this<State> {
  State(Workers& w, SimProcess& p, std::uint64_t a, std::string h, Starter::Callbacks c)
      : workers(w), process(p), agent(a), host(std::move(h)), callbacks(std::move(c)) {}

  Workers& workers;
  SimProcess& process;
  std::uint64_t agent;
  std::string host;
  Starter::Callbacks callbacks;
  std::set<std::uint64_t> children;  // pids
  bool dropped = false, gone = false, killed = false;

  // Runs in the agent unless the starter was dropped.
  void tell(std::function<void()> what) {
    if (dropped) return;
    process.post([self = shared_from_this(), what = std::move(what)] {
      if (!self->dropped) what();
    });
  }
  void later(Micros delay, std::function<void()> what) {
    workers.world_.time.after(delay, [self = shared_from_this(), what = std::move(what)] { what(); });
  }
  Micros soon() { return workers.world_.random.between(100, 20 * kMilli); }

  // The zygote sees its socket end and kills its workers.
  void drop() {
    if (std::exchange(dropped, true)) return;
    gone = true;
    callbacks = {};
    later(soon(), [this] { kill_children(); });
  }
  void kill_children() {
    for (std::uint64_t pid : std::set(children)) workers.crash(pid, kKilled);
  }
  void go(int wait_status, bool orderly) {
    if (gone) return;
    if (orderly) kill_children();
    gone = true;
    later(orderly ? soon() : 0, [this, wait_status] {
      kill_children();
      tell([this, wait_status] { callbacks.gone(wait_status); });
    });
  }
};

class Workers::SimStarter final : public Starter {
 public:
  explicit SimStarter(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~SimStarter() noexcept(false) { state_->drop(); }

  Result<Ends> launch(std::uint64_t token, const WorkerStart& start) override {
    World& world = state_->workers.world_;
    if (world.random.chance(world.chances.launch_fails / 2)) {
      world.reach("launch refused");
      return Error(ErrorKind::resource_exhausted, "cannot make a pipe");
    }
    auto channel = world.network.connect({state_->host, &state_->process}, {state_->host, nullptr});
    auto out = std::make_shared<SimLines::Pipe>();
    auto err = std::make_shared<SimLines::Pipe>();
    auto theirs = std::make_shared<kj::Own<kj::AsyncIoStream>>(kj::mv(channel.second));
    state_->later(state_->soon(), [state = state_, token, start, theirs, out, err] {
      begin(*state, token, start, *theirs, out, err);
    });
    return Ends{kj::mv(channel.first), std::make_unique<SimLines>(out), std::make_unique<SimLines>(err)};
  }
  void kill(pid_t worker) override {
    state_->later(state_->soon(), [state = state_, pid = static_cast<std::uint64_t>(worker)] {
      if (state->children.count(pid) > 0) state->workers.crash(pid, kKilled);
    });
  }
  void end() override {
    state_->later(state_->soon(), [state = state_] { state->go(0, true); });
  }
  void kill_parent() override {
    state_->later(state_->soon(), [state = state_] { state->go(kKilled, false); });
  }
  void drain() override {}
  kj::Promise<int> kill_orphan(pid_t worker) override {
    auto pid = static_cast<std::uint64_t>(worker);
    if (state_->children.count(pid) > 0)
      state_->later(0, [state = state_, pid] { state->workers.crash(pid, kKilled); });
    return kKilled;
  }

 private:
  using Pipe = std::shared_ptr<SimLines::Pipe>;
  static void begin(State& state, std::uint64_t token, const WorkerStart& start,
                    kj::Own<kj::AsyncIoStream>& channel, Pipe out, Pipe err) {
    World& world = state.workers.world_;
    if (state.gone || state.killed) {
      channel = nullptr;
      return;
    }
    if (world.random.chance(world.chances.launch_fails)) {
      world.reach("launch fails");
      channel = nullptr;
      end_lines(*out);
      end_lines(*err);
      state.tell([&state, token] {
        state.callbacks.failed(token, Error(ErrorKind::resource_exhausted, "cannot fork"));
      });
      return;
    }
    std::uint64_t pid = world.new_pid();
    auto died = [weak = state.weak_from_this(), pid, out, err](int wait_status) {
      auto self = weak.lock();
      if (!self) return;
      self->children.erase(pid);
      // The channel ends by itself; pipes and the reaping follow in any order.
      for (auto& pipe : {out, err}) {
        self->later(self->soon(), [self, pipe] { self->tell([pipe] { end_lines(*pipe); }); });
      }
      bool reaped = !self->gone;
      self->later(self->soon(), [self, pid, wait_status, reaped] {
        self->workers.bury(pid);
        if (reaped && !self->gone) {
          self->tell(
              [self, pid, wait_status] { self->callbacks.ended(static_cast<pid_t>(pid), wait_status); });
        }
      });
    };
    auto worker = std::make_unique<Worker>(world, pid, state.agent, start, state.host, kj::mv(channel), died);
    Worker* raw = worker.get();
    state.children.insert(pid);
    state.workers.all_.emplace(pid, std::move(worker));
    world.note("worker " + std::to_string(start.process) + " starts on " + state.host);
    state.tell([&state, token, pid] { state.callbacks.started(token, static_cast<pid_t>(pid)); });
    if (world.random.chance(world.chances.worker_hangs)) {
      world.reach("worker hangs");
      return;
    }
    if (world.random.chance(world.chances.worker_dies_early)) {
      world.reach("worker dies early");
      state.later(state.soon(), [&state, pid] { state.workers.crash(pid, 1 << 8); });
      return;
    }
    state.later(state.soon(), [&workers = state.workers, pid, raw] {
      if (workers.all_.count(pid) > 0 && !raw->dead()) raw->begin(1);
    });
  }

  std::shared_ptr<State> state_;
};

Starter::Factory Workers::starters(SimProcess& process, std::uint64_t agent, std::string host) {
  return [this, &process, agent, host = std::move(host)](
             SpawnOptions, Starter::Callbacks callbacks) -> Result<std::unique_ptr<Starter>> {
    if (world_.random.chance(world_.chances.starter_fails)) {
      world_.reach("starter fails");
      return Error(ErrorKind::not_found, "no such program");
    }
    auto state = std::make_shared<State>(*this, process, agent, host, std::move(callbacks));
    starters_[world_.new_pid()] = state;
    if (world_.random.chance(world_.chances.starter_fails)) {
      world_.reach("starter dies early");
      state->later(state->soon(), [state] { state->go(1 << 8, false); });
    } else {
      state->later(state->soon(), [state] {
        state->tell([state] {
          if (!state->gone) state->callbacks.ready();
        });
      });
    }
    return std::unique_ptr<Starter>(std::make_unique<SimStarter>(std::move(state)));
  };
}

void Workers::agent_died(std::uint64_t agent) {
  for (auto& [number, weak] : starters_) {
    auto state = weak.lock();
    if (!state || state->agent != agent || state->killed) continue;
    state->killed = true;  // the zygote sees the agent's end
    state->later(state->soon(), [state] { state->kill_children(); });
  }
}

Worker* Workers::any() {
  if (all_.empty()) return nullptr;
  auto at = std::next(all_.begin(), static_cast<std::ptrdiff_t>(world_.random.below(all_.size())));
  return at->second->dead() ? nullptr : at->second.get();
}

std::size_t Workers::of_agent(std::uint64_t agent) const {
  std::size_t n = 0;
  for (const auto& [pid, worker] : all_) n += worker->agent() == agent && !worker->dead();
  return n;
}

void Workers::crash(std::uint64_t pid, int wait_status) {
  auto at = all_.find(pid);
  if (at != all_.end()) at->second->die(wait_status);
}

void Workers::bury(std::uint64_t pid) { all_.erase(pid); }

bool Workers::crash_starter() {
  std::vector<std::shared_ptr<State>> living;
  for (auto at = starters_.begin(); at != starters_.end();) {
    auto state = at->second.lock();
    if (state && !state->gone) living.push_back(state);
    at = state ? std::next(at) : starters_.erase(at);
  }
  if (living.empty()) return false;
  living[world_.random.below(living.size())]->go(kKilled, false);
  return true;
}

}  // namespace troupe::sim
