#include "runtime/agent/node_agent.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "runtime/agent/agent_state.h"
#include "runtime/agent/servants.h"
#include "runtime/agent/zygote_starter.h"

namespace troupe {
namespace {

constexpr int kMostBeats = 20;

FaultPoint beat_lost("agent.heartbeat.lose_request");

void write_info(wire::NodeInfo::Builder to, const NodeAgent::Options& options) {
  to.setName(options.name.c_str());
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
  return options;
}

}  // namespace

NodeAgent::NodeAgent(ControlLoop& loop, Options options)
    : NodeAgent(static_cast<Executor&>(loop), completed(loop, std::move(options))) {}

NodeAgent::NodeAgent(Executor& loop, Options options)
    : loop_(loop), state_(std::make_shared<AgentState>(loop, std::move(options))), ended_(nullptr) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  tell_ended_ = kj::mv(paf.fulfiller);
  ended_ = kj::mv(paf.promise);
}

NodeAgent::~NodeAgent() noexcept(false) {
  membership_ = nullptr;
  head_ = nullptr;
}

kj::Promise<void> NodeAgent::join(kj::Own<RpcConnection> connection) {
  if (auto ready = state_->prepare(); !ready) return kj_exception(ready.error());
  if (state_->options().reaps_orphans) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto lost = connection->on_disconnect();
  auto& to_head = *connection;
  head_ = kj::mv(connection);
  std::weak_ptr<AgentState> alive = state_;
  loop_.spawn("watching the head", lost.then([this, alive] {
    if (alive.expired()) return;
    finish(kj_exception(Error(ErrorKind::unavailable, "the connection to the head has ended")),
           "the head is gone");
  }));
  auto request = to_head.bootstrap().castAs<wire::Head>().joinRequest();
  write_info(request.initInfo(), state_->options());
  request.setAgent(kj::heap<AgentServant>(alive, [this, alive](const std::string& reason) {
    if (!alive.expired()) stop(reason);
  }));
  auto answer = request.send();
  // The head's commands may come before the answer's continuation runs.
  auto membership = answer.getMembership();
  state_->joined(membership);
  membership_ = kj::mv(membership);
  return answer.then([this](auto&& result) {
    state_->named(result.getNode(), std::string(result.getName().cStr()));
    loop_.spawn("heartbeat", beat());
  });
}

kj::Promise<void> NodeAgent::beat() {
  std::weak_ptr<AgentState> alive = state_;
  return loop_.timer().afterDelay(kHeartbeat).then([this, alive]() -> kj::Promise<void> {
    if (alive.expired() || finishing_) return kj::READY_NOW;
    state_->tell_of_dropped_lines();
    KJ_IF_MAYBE (membership, membership_) {
      if (beats_ < kMostBeats && !beat_lost.fires()) {
        ++beats_;
        auto answered = [this, alive] {
          if (!alive.expired()) --beats_;
        };
        auto refused = [this, alive, answered](kj::Exception&& failure) {
          answered();
          // Declared lost, its actors run elsewhere by now: nothing may go on here.
          if (!alive.expired() && error_of(failure).kind == ErrorKind::not_found) {
            finish(kj::mv(failure), "the head has declared this node lost");
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
                      membership_ = nullptr;
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
