#include "tests/sim/worker.h"

#include <signal.h>

#include "core/control/kj_error.h"
#include "runtime/call/actor_cell.h"
#include "tests/sim/news.h"
#include "tests/sim/wishes.h"

namespace troupe::sim {
namespace {

constexpr int kMostLanes = 2;

}  // namespace

Worker::Worker(World& world, std::uint64_t pid, std::uint64_t agent, WorkerStart start, std::string host,
               kj::Own<kj::AsyncIoStream> channel, OnDeath on_death)
    : world_(world),
      pid_(pid),
      agent_(agent),
      start_(std::move(start)),
      host_(std::move(host)),
      on_death_(std::move(on_death)),
      stream_(kj::mv(channel)) {}

Worker::~Worker() noexcept(false) {
  on_death_ = nullptr;
  die(0);
}

void Worker::later(Micros delay, std::function<void()> what) {
  world_.time.after(delay, [this, alive = std::weak_ptr<int>(alive_), what = std::move(what)] {
    if (!alive.expired() && !dead_) what();
  });
}

void Worker::begin(std::uint64_t fingerprint) {
  KJ_IF_MAYBE (stream, stream_) {
    Program::Options options;
    options.name = "worker " + std::to_string(start_.process);
    options.host = host_;
    options.lanes = std::max(1, std::min(start_.lanes, kMostLanes));
    options.fingerprint = fingerprint;
    options.host_id = start_.host_id;
    options.process = {start_.process};
    options.job = {start_.job};
    options.agent = agent_;
    options.crash = [this] { later(0, [this] { die(SIGSEGV); }); };
    program_ = std::make_unique<Program>(world_, options, [](const Error&) {});
    server_ = std::make_unique<WorkerHost>(program_->process(), program_->participant(), start_);
    program_->serve(server_.get());
    auto connection = kj::heap<RpcConnection>(kj::mv(*stream), nullptr, false);
    stream_ = nullptr;
    program_->process().spawn(
        "channel", connection->on_disconnect().then([this] { later(0, [this] { die(SIGKILL); }); }));
    Place place;
    place.process = options.process;
    place.node = {start_.node};
    place.host_id = start_.host_id;
    place.unix_path = "/w" + std::to_string(start_.process);
    place.tcp_host = host_;
    place.tcp_port = 1;
    auto agent = overheard(*program_, connection->bootstrap().castAs<wire::WorkerHost>());
    channel_ = kj::mv(connection);
    server_->start(std::move(place), kj::mv(agent), [this](const std::string&) {
      later(0, [this] { die(1 << 8); });  // it gives up, with status 1
    });
  }
}

void Worker::die(int wait_status, bool silent) {
  if (std::exchange(dead_, true)) return;
  if (on_death_) {
    world_.note("worker " + std::to_string(start_.process) + " on " + host_ + " ends with " +
                std::to_string(wait_status));
  }
  if (program_) program_->die(silent);
  server_ = nullptr;
  channel_ = nullptr;
  program_ = nullptr;
  stream_ = nullptr;
  if (on_death_) on_death_(wait_status);
}

ActorId Worker::some_actor() const {
  ActorId found;
  if (!program_) return found;
  for (auto& lane : program_->participant().lanes()) {
    for (auto& [id, cell] : lane->actors()) {
      if (!found || id < found) found = id;
    }
  }
  return found;
}

bool Worker::fail_one_actor() {
  ActorId actor = some_actor();
  if (!actor || start_.isolation == 0) return false;
  server_->fail(actor, Error(ErrorKind::actor_error, "it went wrong"));
  return true;
}

bool Worker::spawn_child() {
  ActorId owner = some_actor();
  if (!owner) return false;
  Wish wish = Wish::draw(world_.random);
  if (wish.name.empty() && world_.random.chance(500)) {
    ActorId child = program_->participant().spawn(wish.request(owner));
    world_.note(program_->options().name + " spawns " + to_string(child));
    world_.actors.push_back(child);
    world_.reach("child spawned");
    return true;
  }
  KJ_IF_MAYBE (session, program_->participant().plane().session()) {
    auto call = session->spawnRequest();
    ActorId child = raw_actor({start_.process}, ++spawned_);
    wish.write(call.initActors(1)[0], child, owner);
    world_.note(program_->options().name + " spawns " + to_string(child));
    program_->process().spawn("spawning", call.send().then(
                                              [this, child, named = wish.get_or_create](auto&& answer) {
                                                auto one = answer.getSpawned()[0];
                                                if (one.hasFailure() || named) return;
                                                world_.reach("child spawned");
                                                world_.actors.push_back(child);
                                                world_.judge.spawn_acknowledged(child);
                                              },
                                              [](kj::Exception&&) {}));
    return true;
  }
  return false;
}

}  // namespace troupe::sim
