#include "runtime/process/driver_session.h"

#include "core/base/log.h"
#include "core/control/kj_error.h"

namespace troupe {

struct DriverSession::Attempt {
  kj::TimePoint since = kj::origin<kj::TimePoint>();
  bool told = false;
};

DriverSession::DriverSession(Executor& loop, ControlPlane& plane, Hooks hooks)
    : loop_(loop),
      plane_(plane),
      hooks_(std::move(hooks)),
      watch_(loop, hooks_.connect, [this](kj::Own<RpcConnection> other) { move_to(kj::mv(other)); }) {}

kj::Promise<void> DriverSession::enter() {
  auto attempt = std::make_shared<Attempt>();
  attempt->since = loop_.timer().now();
  return try_to_enter(attempt).then([this] { loop_.spawn("heartbeat", beat()); });
}

kj::Promise<void> DriverSession::try_to_enter(std::shared_ptr<Attempt> attempt) {
  return hooks_.connect()
      .then([this](kj::Own<RpcConnection> head) { return open(kj::mv(head)); })
      .catch_([this, attempt](kj::Exception&& failure) -> kj::Promise<void> {
        Error why = error_of(failure);
        if (why.kind != ErrorKind::unavailable || loop_.timer().now() - attempt->since > kEntry) {
          return kj::mv(failure);
        }
        if (!std::exchange(attempt->told, true)) {
          log(Level::warning, why.message + "; trying for " + std::to_string(kEntry / kj::SECONDS) + " s");
        }
        return loop_.timer().afterDelay(kRetry).then([this, attempt] { return try_to_enter(attempt); });
      });
}

// The first time the job is new, later the driver comes back to it.
kj::Promise<void> DriverSession::open(kj::Own<RpcConnection> head) {
  auto bootstrap = head->bootstrap().castAs<wire::Head>();
  auto request = bootstrap.openJobRequest();
  hooks_.describe(request.initInfo());
  request.setClient(hooks_.client());
  bootstrap_ = kj::mv(bootstrap);
  head_ = kj::mv(head);
  std::uint64_t number = ++connection_;
  std::weak_ptr<int> alive = alive_;
  return request.send().then([this, alive, number](capnp::Response<wire::Head::OpenJobResults> answer) {
    if (alive.expired() || number != connection_) return;
    hooks_.opened({answer.getJob()}, {answer.getProcess()});
    plane_.use_session(answer.getSession());
    loop_.spawn("watching the head", head_->on_disconnect().then([this, alive, number] {
      if (alive.expired() || number != connection_) return;
      leave();
      look_for_head();
    }));
  });
}

void DriverSession::leave() {
  ++connection_;
  watch_.left();
  plane_.session_lost();
  // A turn later: this may run on behalf of the connection that is dropped here.
  loop_.spawn("leaving the head",
              kj::evalLast([old = kj::mv(head_), bootstrap = kj::mv(bootstrap_)]() mutable {
                bootstrap = nullptr;
                old = nullptr;
              }));
  head_ = nullptr;
  bootstrap_ = nullptr;
}

// A head that hangs keeps its connections; asking it something shows.
kj::Promise<void> DriverSession::beat() {
  std::weak_ptr<int> alive = alive_;
  return loop_.timer().afterDelay(kBeat).then([this, alive]() -> kj::Promise<void> {
    if (alive.expired()) return kj::READY_NOW;
    KJ_IF_MAYBE (bootstrap, bootstrap_) watch_.ask(*bootstrap);
    return beat();
  });
}

void DriverSession::move_to(kj::Own<RpcConnection> head) {
  leave();
  std::uint64_t search = ++search_;
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("going to another head",
              open(kj::mv(head)).catch_([this, alive, search](kj::Exception&& failure) {
                if (!alive.expired() && search == search_) failed(failure, true);
              }));
}

void DriverSession::look_for_head() {
  std::uint64_t search = ++search_;  // how an earlier one ends is of no interest
  std::weak_ptr<int> alive = alive_;
  auto reached = std::make_shared<bool>(false);
  loop_.spawn("looking for the head",
              hooks_.connect()
                  .then([this, alive, reached, search](kj::Own<RpcConnection> head) -> kj::Promise<void> {
                    if (alive.expired() || search != search_) return kj::READY_NOW;
                    *reached = true;
                    return open(kj::mv(head));
                  })
                  .catch_([this, alive, reached, search](kj::Exception&& failure) {
                    if (!alive.expired() && search == search_) failed(failure, *reached);
                  }));
}

void DriverSession::failed(const kj::Exception& failure, bool reached) {
  Error why = error_of(failure);
  // "No cluster" may pass; a head that does not know the job will not learn of it.
  if (reached && why.kind == ErrorKind::not_found) {
    why.message = "the cluster has given this program up: " + why.message;
    return plane_.end_session(why);
  }
  leave();  // what did not open the job is not asked whether it lives
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("looking for the head again",
              loop_.timer().afterDelay(kRetry).then([this, alive, search = search_] {
                if (!alive.expired() && search == search_) look_for_head();
              }));
}

}  // namespace troupe
