#include "runtime/agent/node_agent.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "runtime/agent/agent_state.h"
#include "runtime/agent/memory_use.h"
#include "runtime/agent/servants.h"
#include "runtime/agent/zygote_starter.h"
#include "runtime/objects/object_service.h"
#include "runtime/objects/transfer/transfer.h"

namespace troupe {
namespace {

constexpr int kMostBeats = 20;

FaultPoint beat_lost("agent.heartbeat.lose_request");

void write_info(wire::NodeInfo::Builder to, const NodeAgent::Options& options, const std::string& name) {
  to.setName(name.c_str());
  to.setHostId(options.host_id.c_str());
  to.setPid(options.pid);
  to.setAddress(options.tcp_host.c_str());
  const auto& amounts = options.resources.all();
  auto list = to.initResources(static_cast<unsigned>(amounts.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(amounts[i].first.c_str());
    list[i].setUnits(amounts[i].second);
  }
}

NodeAgent::Options completed(ControlLoop& loop, NodeAgent::Options options) {
  if (options.host_id.empty()) options.host_id = host_id();
  if (options.pid == 0) options.pid = ::getpid();
  if (!options.starter) options.starter = zygotes(loop);
  if (!options.memory.machine) options.memory = {machine_memory, private_memory};
  return options;
}

}  // namespace

NodeAgent::NodeAgent(ControlLoop& loop, Options options)
    : NodeAgent(static_cast<Executor&>(loop), completed(loop, std::move(options))) {
  control_ = &loop;
}

NodeAgent::NodeAgent(Executor& loop, Options options)
    : loop_(loop),
      state_(std::make_shared<AgentState>(loop, std::move(options))),
      watch_(loop, state_->options().reconnect,
             [this](kj::Own<RpcConnection> head) { move_to(kj::mv(head)); }),
      ended_(nullptr) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  tell_ended_ = kj::mv(paf.fulfiller);
  ended_ = kj::mv(paf.promise);
}

NodeAgent::~NodeAgent() noexcept(false) {
  objects_ = nullptr;
  membership_ = nullptr;
  joining_ = nullptr;
  head_ = nullptr;
}

Result<void> NodeAgent::start_objects() {
  const Options& options = state_->options();
  if (control_ == nullptr || options.object_memory == 0 || objects_) return {};
  ObjectServiceOptions store(options.token);
  store.memory = options.object_memory;
  store.disk = options.object_disk;
  store.folder = options.state + "/objects";
  store.socket = state_->sockets() + "/objects";
  store.host = options.tcp_host;
  store.name = options.name;
  if (!store.host.empty()) {
    store.puller = [loop = control_, token = options.token, host = store.host](ObjectHost& of) {
      return Transfer::create(*loop, of, token, host);
    };
  }
  auto made = std::make_unique<ObjectService>(*control_, std::move(store));
  if (auto started = made->start(); !started) return started.error();
  objects_ = std::move(made);
  return {};
}

kj::Promise<void> NodeAgent::join(kj::Own<RpcConnection> connection) {
  if (auto ready = state_->prepare(); !ready) return kj_exception(ready.error());
  if (auto ready = start_objects(); !ready) return kj_exception(ready.error());
  if (state_->options().reaps_orphans) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return enter(kj::mv(connection)).then([this] { loop_.spawn("heartbeat", beat()); });
}

kj::Promise<void> NodeAgent::enter(kj::Own<RpcConnection> connection) {
  state_->head_lost();  // what a join that failed may have brought
  std::uint64_t number = ++connection_;
  auto lost = connection->on_disconnect();
  auto& to_head = *connection;
  head_ = kj::mv(connection);
  std::weak_ptr<AgentState> alive = state_;
  loop_.spawn("watching the head", lost.then([this, alive, number] {
    // A first join fails, and who asked for it tries again.
    if (alive.expired() || number != connection_ || !has_joined_) return;
    head_lost(Error(ErrorKind::unavailable, "the connection to the head has ended"), false);
  }));
  auto bootstrap = to_head.bootstrap().castAs<wire::Head>();
  auto request = bootstrap.joinRequest();
  write_info(request.initInfo(), state_->options(), state_->name());
  if (objects_) {
    request.getInfo().setObjectsPath(objects_->path().c_str());
    request.getInfo().setObjectsPort(objects_->port());
  }
  request.setWas(state_->node());
  auto jobs = state_->job_ids();
  auto list = request.initJobs(static_cast<unsigned>(jobs.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, jobs[i]);
  request.setAgent(
      kj::heap<AgentServant>(alive, state_->heads_lost(), [this, alive](const std::string& reason) {
        if (!alive.expired()) stop(reason);
      }));
  joining_ = kj::mv(bootstrap);
  auto over = [this, alive, number] {
    if (alive.expired() || number != connection_) return false;
    joining_ = nullptr;
    watch_.left();  // what it was asked while it joined
    return true;
  };
  return request.send().then(
      [this, over](capnp::Response<wire::Head::JoinResults>&& result) -> kj::Promise<void> {
        if (!over()) return kj::READY_NOW;
        return entered(result.getNode(), result.getName().cStr(), result.getMembership());
      },
      [over](kj::Exception&& failure) -> kj::Promise<void> {
        over();
        return kj::mv(failure);
      });
}

// The head's commands, which may have come already, wait in the servants until the node is named.
kj::Promise<void> NodeAgent::entered(std::uint64_t node, std::string name,
                                     wire::Membership::Client membership) {
  std::uint64_t number = connection_;
  kj::Promise<void> ready = kj::READY_NOW;
  membership_ = membership;  // heartbeats begin: what is to be ended first may take its time
  beats_ = 0;
  if (state_->node() != 0 && state_->node() != node) {
    ready = state_->end_workers("the head has declared this node lost");
  }
  return ready.then([this, alive = std::weak_ptr<AgentState>(state_), number, node, name = std::move(name),
                     membership = kj::mv(membership)]() mutable {
    if (alive.expired() || number != connection_ || finishing_) return;
    has_joined_ = true;
    if (connection_ > 1) log(Level::info, "joined the head again, as " + name);
    if (objects_) {
      objects_->named({node}, name);
      objects_->joined(membership);
    }
    state_->named(node, std::move(name));
    state_->joined(kj::mv(membership));
  });
}

void NodeAgent::leave_head() {
  ++connection_;
  watch_.left();
  state_->head_lost();
  if (objects_) objects_->head_lost();
  // A turn later: this may run on behalf of the connection that is dropped here.
  loop_.spawn("leaving the head", kj::evalLast([head = kj::mv(head_), membership = kj::mv(membership_),
                                                joining = kj::mv(joining_)]() mutable {
                membership = nullptr;
                joining = nullptr;
                head = nullptr;
              }));
  head_ = nullptr;
  membership_ = nullptr;
  joining_ = nullptr;
}

void NodeAgent::move_to(kj::Own<RpcConnection> head) {
  if (finishing_) return;
  leave_head();
  std::weak_ptr<AgentState> alive = state_;
  std::uint64_t search = ++search_;
  auto until = loop_.timer().now() + state_->options().head_patience;
  loop_.spawn("joining another head",
              enter(kj::mv(head)).catch_([this, alive, search, until](kj::Exception&& failure) {
                if (!alive.expired() && search == search_) look_for_head(error_of(failure), until);
              }));
}

void NodeAgent::head_lost(const Error& why, bool fenced) {
  if (finishing_) return;
  leave_head();
  if (!state_->options().reconnect) return finish(kj_exception(why), "the head is gone");
  log(Level::warning, why.message + "; looking for the head");
  auto until = loop_.timer().now() + state_->options().head_patience;
  if (!fenced) return look_for_head(why, until);
  std::weak_ptr<AgentState> alive = state_;
  loop_.spawn("ending what was declared lost",
              state_->end_workers(why.message).then([this, alive, why, until] {
                if (!alive.expired()) look_for_head(why, until);
              }));
}

void NodeAgent::look_for_head(const Error& why, kj::TimePoint until) {
  if (finishing_) return;
  std::uint64_t search = ++search_;  // what an earlier one still brings is of no interest
  std::weak_ptr<AgentState> alive = state_;
  if (loop_.timer().now() >= until) {
    return finish(kj_exception(Error(why.kind, why.message + ", and none was found since")),
                  "the head is gone");
  }
  auto attempt = state_->options().reconnect().then(
      [this, alive, search](kj::Own<RpcConnection> head) -> kj::Promise<void> {
        if (alive.expired() || finishing_ || search != search_) return kj::READY_NOW;
        return enter(kj::mv(head));
      });
  loop_.spawn("joining again",
              attempt.catch_([this, alive, why, until, search](kj::Exception&&) -> kj::Promise<void> {
                return loop_.timer().afterDelay(kRetry).then([this, alive, why, until, search] {
                  if (!alive.expired() && search == search_) look_for_head(why, until);
                });
              }));
}

kj::Promise<void> NodeAgent::beat() {
  std::weak_ptr<AgentState> alive = state_;
  return loop_.timer().afterDelay(kHeartbeat).then([this, alive]() -> kj::Promise<void> {
    if (alive.expired() || finishing_) return kj::READY_NOW;
    state_->tell_of_dropped_lines();
    // It may hang before it has answered the join.
    KJ_IF_MAYBE (head, joining_) watch_.ask(*head);
    KJ_IF_MAYBE (membership, membership_) {
      if (beats_ >= kMostBeats) {
        watch_.asked();
      } else if (!beat_lost.fires()) {
        ++beats_;
        watch_.asked();
        std::uint64_t number = connection_;
        auto answered = [this, alive, number] {
          if (alive.expired() || number != connection_) return;
          --beats_;
          watch_.answered();
        };
        auto refused = [this, alive, answered, number](kj::Exception&& failure) {
          answered();
          // Declared lost, its actors run elsewhere by now: nothing may go on here.
          if (!alive.expired() && number == connection_ && error_of(failure).kind == ErrorKind::not_found) {
            head_lost(Error(ErrorKind::unavailable, "the head has declared this node lost"), true);
          }
        };
        loop_.spawn("heartbeat", membership->heartbeatRequest().send().ignoreResult().then(kj::cp(answered),
                                                                                           kj::mv(refused)));
      }
    }
    return beat();
  });
}

void NodeAgent::stop(const std::string& reason) { finish(nullptr, reason); }

void NodeAgent::finish(kj::Maybe<kj::Exception> failure, const std::string& reason) {
  if (finishing_) return;
  finishing_ = true;
  auto state = state_;
  loop_.spawn("ending the node",
              state->end_all(reason).then(
                  [this, failure = kj::mv(failure), alive = std::weak_ptr<AgentState>(state)]() mutable {
                    if (alive.expired()) return;
                    // A turn later: this may run on behalf of the connection that is dropped here.
                    loop_.post([this, alive] {
                      if (alive.expired()) return;
                      objects_ = nullptr;
                      membership_ = nullptr;
                      joining_ = nullptr;
                      head_ = nullptr;
                    });
                    KJ_IF_MAYBE (exception, failure)
                      tell_ended_->reject(kj::mv(*exception));
                    else
                      tell_ended_->fulfill();
                  }));
}

std::uint64_t NodeAgent::node() const { return state_->node(); }
const std::string& NodeAgent::name() const { return state_->name(); }

}  // namespace troupe
