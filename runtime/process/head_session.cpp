#include "runtime/process/head_session.h"

#include "core/control/kj_error.h"

namespace troupe {

void HeadSession::use(wire::Session::Client session) {
  if (ended_) return;
  session_ = kj::mv(session);
  ++number_;
  patient_ = true;
  auto waiting = std::exchange(waiting_, {});
  for (auto& [order, request] : waiting) attempt(order, request);
}

void HeadSession::lost() {
  if (ended_ || (number_ > 0 && session_ == nullptr)) return;
  session_ = nullptr;
  patient_ = true;
  trouble_ = Error(ErrorKind::unavailable, "the head cannot be reached");
  std::uint64_t outage = ++outage_;
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("waiting for the head", loop_.timer().afterDelay(kPatience).then([this, alive, outage] {
    if (alive.expired() || ended_ || session_ != nullptr || outage != outage_) return;
    patient_ = false;
    give_up(Error(ErrorKind::unavailable, "the head could not be reached for " +
                                              std::to_string(kPatience / kj::SECONDS) +
                                              " s; see `troupe status`, or start it again"));
  }));
}

void HeadSession::end(const Error& why) {
  ended_ = true;
  session_ = nullptr;
  give_up(why);
}

void HeadSession::give_up(const Error& why) {
  trouble_ = why;
  for (auto& [order, request] : std::exchange(waiting_, {})) request->fail(why);
  given_up_(why);
}

void HeadSession::request(Send send, Fail fail, bool repeatable) {
  attempt(++order_, std::make_shared<Request>(
                        Request{std::move(send), std::move(fail), repeatable, loop_.timer().now()}));
}

void HeadSession::attempt(std::uint64_t order, std::shared_ptr<Request> request) {
  KJ_IF_MAYBE (session, session_) {
    std::weak_ptr<int> alive = alive_;
    std::uint64_t number = number_;
    loop_.spawn("a request to the head", request->send(*session).catch_(
                                             [this, alive, number, order, request](kj::Exception&& failure) {
                                               if (!alive.expired()) failed(number, order, request, failure);
                                             }));
    return;
  }
  if (ended_ || !patient_) return request->fail(trouble_);
  if (waiting_.size() >= kMostWaiting) {
    return request->fail(
        Error(ErrorKind::overloaded, std::to_string(kMostWaiting) +
                                         " requests wait already for the head, which cannot be "
                                         "reached"));
  }
  waiting_.emplace(order, std::move(request));
}

void HeadSession::failed(std::uint64_t number, std::uint64_t order, std::shared_ptr<Request> request,
                         const kj::Exception& failure) {
  if (!connection_lost(failure)) {
    Error why = error_of(failure);
    bool may_pass = why.kind == ErrorKind::unavailable && request->repeatable &&
                    loop_.timer().now() - request->since < kPatience;
    if (!may_pass) return request->fail(why);
    loop_.spawn("repeating a request", loop_.timer().afterDelay(kRetry).then(
                                           [this, alive = std::weak_ptr<int>(alive_), order, request] {
                                             if (!alive.expired()) attempt(order, request);
                                           }));
    return;
  }
  if (number == number_) lost();
  if (!request->repeatable) {
    return request->fail(
        Error(ErrorKind::unavailable,
              "the connection to the head broke; whether the request took effect is not known"));
  }
  attempt(order, request);
}

}  // namespace troupe
