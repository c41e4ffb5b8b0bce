#include "tests/sim/program.h"

#include <algorithm>
#include <cstring>

#include "core/control/kj_error.h"
#include "runtime/call/actor_cell.h"
#include "tests/sim/sim_call.h"
#include "tests/sim/sim_link.h"

namespace troupe::sim {
namespace {

Program* current_program = nullptr;

constexpr auto kHello = kHelloMs * kj::MILLISECONDS;
constexpr std::size_t kWord = 8;

std::vector<std::byte> word(std::uint64_t value) {
  std::vector<std::byte> bytes(kWord);
  std::memcpy(bytes.data(), &value, kWord);
  return bytes;
}

using NewLink = kj::Own<std::unique_ptr<Link>>;

}  // namespace

Program* Program::current() { return current_program; }

template <class F>
void Program::as_current(F&& code) {
  Program* before = std::exchange(current_program, this);
  code();
  current_program = before;
}

Program::Program(World& world, Options options, std::function<void(const Error&)> fail)
    : world_(world),
      options_(std::move(options)),
      number_(world.new_pid()),
      process_(world.time, [this](const std::string& text) { world_.note(options_.name + ": " + text); }),
      rungs_(static_cast<std::size_t>(options_.lanes)) {
  for (int i = 0; i < options_.lanes; ++i) {
    LaneOptions lane;
    lane.index = i;
    lane.drivable = options_.drivable;
    lane.ring = [this, i] { ring(static_cast<std::size_t>(i)); };
    participant_.lanes().push_back(std::make_unique<Lane>(lane, participant_));
  }
  LinkIdentity self;
  self.process = options_.process;
  self.job = options_.job;
  self.fingerprint = options_.fingerprint;
  self.host_id = options_.host_id;
  Participant::Outside outside;
  outside.connect = [this](const Place& place, const LinkIdentity& who, Lane& lane) {
    return connect(place, who, lane);
  };
  outside.fail = std::move(fail);
  participant_.start(process_, self, std::move(outside));
  if (options_.process) world_.programs[options_.process.value] = this;
  for (std::size_t i = 0; i < rungs_.size(); ++i) ring(i);
}

Program::~Program() noexcept(false) { die(false); }

void Program::die(bool silent) {
  if (std::exchange(dead_, true)) return;
  world_.calls.caller_died(number_);
  world_.network.dies(&process_, silent);
  if (options_.process) world_.programs.erase(options_.process.value);
  alive_.reset();
  greeting_.clear();
  as_current([this] {
    auto& lanes = participant_.lanes();
    for (auto& lane : lanes) {
      if (!lane->try_enter()) continue;
      auto actors = std::move(lane->actors());
      lane->actors().clear();
      for (auto& [id, cell] : actors) cell->release();
      lane->leave();
    }
    for (auto& lane : lanes) lane->stop("its process is dead");
    calls_.clear();
    lanes.clear();
    participant_.stop();
    process_.end();
  });
}

void Program::crash() {
  world_.network.dies(&process_, false);
  options_.crash();
}

// ---- lanes ----

void Program::thaw() {
  process_.thaw();
  for (std::size_t i = 0; i < rungs_.size(); ++i) ring(i);
}

void Program::ring(std::size_t lane) {
  if (dead_ || rungs_[lane].scheduled) return;
  rungs_[lane].scheduled = true;
  world_.time.after(world_.random.between(1, 15), [this, lane, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) step(lane);
  });
}

void Program::step(std::size_t index) {
  Rung& rung = rungs_[index];
  rung.scheduled = false;
  if (process_.frozen()) return;  // rung again when it thaws
  Lane::Next next;
  auto ready = std::exchange(rung.ready, {});
  as_current(
      [&] { next = lane(index).step([&ready](int descriptor) { return ready.count(descriptor) > 0; }); });
  if (std::string bad = lane(index).check(); !bad.empty()) world_.judge.violation(options_.name + ": " + bad);
  if (next.at_once)
    ring(index);
  else if (next.wake != 0)
    alarm(index, next.wake);
}

void Program::alarm(std::size_t index, std::int64_t wake) {
  Micros at = world_.micros_of(wake);
  Rung& rung = rungs_[index];
  if (rung.alarm != 0 && rung.alarm <= at) return;
  rung.alarm = at;
  world_.time.at(at, [this, index, at, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired() || rungs_[index].alarm != at) return;
    rungs_[index].alarm = 0;
    ring(index);
  });
}

void Program::on_lane(std::size_t index, const std::function<void(Lane&)>& code) {
  as_current([&] {
    Lane& here = lane(index);
    if (!here.try_enter()) return;
    code(here);
    here.leave();
  });
}

// ---- links ----

std::unique_ptr<Link> Program::link(std::unique_ptr<Network::Wire> wire, bool shared, std::size_t lane) {
  int descriptor = ++descriptors_;
  return std::make_unique<SimLink>(std::move(wire), shared, descriptor,
                                   [this, lane, descriptor, alive = std::weak_ptr<int>(alive_)](bool event) {
                                     if (alive.expired()) return;
                                     if (event) rungs_[lane].ready.insert(descriptor);
                                     ring(lane);
                                   });
}

// The caller's side, until the callee has answered.
class Program::Connecting {
 public:
  Connecting(kj::PromiseFulfiller<NewLink>& done, Program& program, const Place& place, bool shared,
             Lane& lane)
      : done_(done), program_(program), shared_(shared), lane_(static_cast<std::size_t>(lane.index())) {
    World& world = program.world_;
    auto at = world.programs.find(place.process.value);
    if (at == world.programs.end()) {
      // Its host's kernel refuses.
      world.time.after(world.random.between(20, 2 * kMilli), [&done, alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired())
          done.reject(kj_exception(Error(ErrorKind::unavailable, "nobody listens there")));
      });
      return;
    }
    Program& callee = *at->second;
    auto wires = world.network.connect_wires({program.options_.host, &program.process_},
                                             {callee.options_.host, &callee.process_});
    wire_ = std::move(wires.first);
    wire_->on_event([this] { answered(); });
    std::uint64_t hello = place.lane | (program.options_.fingerprint << 16) | std::uint64_t{shared} << 63;
    wire_->write(word(hello));
    callee.accept(std::move(wires.second), shared, place.process.value);
  }

 private:
  void answered() {
    std::vector<std::byte> bytes;
    wire_->take(bytes);
    if (bytes.size() < kWord) {
      if (wire_->over()) done_.reject(kj_exception(Error(ErrorKind::unavailable, "it hung up")));
      return;
    }
    std::uint64_t accepted = 0;
    std::memcpy(&accepted, bytes.data(), kWord);
    if (accepted != 1) {
      done_.reject(kj_exception(Error(ErrorKind::not_found, "another process lives there now")));
      return;
    }
    done_.fulfill(kj::heap<std::unique_ptr<Link>>(program_.link(std::move(wire_), shared_, lane_)));
  }

  kj::PromiseFulfiller<NewLink>& done_;
  Program& program_;
  bool shared_;
  std::size_t lane_;
  std::unique_ptr<Network::Wire> wire_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

kj::Promise<NewLink> Program::connect(const Place& place, const LinkIdentity& self, Lane& lane) {
  bool shared = place.host_id == self.host_id && !place.unix_path.empty();
  world_.reach(shared ? "link in a machine" : "link between machines");
  auto linked = kj::newAdaptedPromise<NewLink, Connecting>(*this, place, shared, lane);
  auto late = process_.timer().afterDelay(kHello).then([]() -> kj::Promise<NewLink> {
    return kj_exception(Error(ErrorKind::unavailable, "the actor's process did not answer in time"));
  });
  return linked.exclusiveJoin(kj::mv(late));
}

void Program::accept(std::unique_ptr<Network::Wire> wire, bool shared, std::uint64_t process) {
  Network::Wire* waiting = wire.get();
  greeting_.push_back(std::move(wire));
  waiting->on_event([this, waiting, shared, process] {
    auto at = std::find_if(greeting_.begin(), greeting_.end(),
                           [waiting](const auto& one) { return one.get() == waiting; });
    std::vector<std::byte> bytes;
    waiting->take(bytes);
    std::unique_ptr<Network::Wire> mine = std::move(*at);
    greeting_.erase(at);
    if (bytes.size() < kWord) return;  // it hung up
    std::uint64_t hello = 0;
    std::memcpy(&hello, bytes.data(), kWord);
    std::size_t lane = hello & 0xffff;
    bool wanted = host_ != nullptr && process == options_.process.value && lane < rungs_.size();
    mine->write(word(wanted ? 1 : 2));
    if (!wanted) return;
    world_.reach("link accepted");
    host_->take_link(static_cast<std::uint16_t>(lane), link(std::move(mine), shared, lane));
  });
}

}  // namespace troupe::sim
