// The process's session with the head, which may end and come back: when the head restarts, when another
// takes over, or when the way to it breaks. Requests that found no answer wait for the next session and are
// sent again in their order; all of them may be repeated, since they name what they want (an actor's id, a
// name) or ask. Requests that may not be are failed as unavailable when the answer is lost.
//
// Owner: ControlPlane. Thread: the control thread. Lifetime: dropping it drops the requests, unanswered.
// Bounded: kMostWaiting requests, each for kPatience without a session; then unavailable or overloaded.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/control/executor.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe {

class HeadSession {
 public:
  static constexpr auto kPatience = 30 * kj::SECONDS;
  static constexpr auto kRetry = 200 * kj::MILLISECONDS;  // after the head could not reach its store
  static constexpr std::size_t kMostWaiting = 100'000;
  // Sends one request; what it returns is done when the answer was dealt with.
  using Send = std::function<kj::Promise<void>(wire::Session::Client&)>;
  using Fail = std::function<void(const Error&)>;

  // `given_up` runs when no session came for kPatience, or none can come any more.
  HeadSession(Executor& loop, Fail given_up) : loop_(loop), given_up_(std::move(given_up)) {}
  HeadSession(const HeadSession&) = delete;

  void use(wire::Session::Client session);
  void lost();                 // requests wait for the next one
  void end(const Error& why);  // none will come: requests fail from now on
  bool hopeless() const { return ended_ || (session_ == nullptr && !patient_); }
  const Error& trouble() const { return trouble_; }
  kj::Maybe<wire::Session::Client>& current() { return session_; }  // for those who repeat by themselves
  std::uint64_t number() const { return number_; }                  // of the newest session, from 1

  void request(Send send, Fail fail, bool repeatable = true);

 private:
  struct Request {
    Send send;
    Fail fail;
    bool repeatable;
    kj::TimePoint since;
  };
  void attempt(std::uint64_t order, std::shared_ptr<Request> request);
  void failed(std::uint64_t number, std::uint64_t order, std::shared_ptr<Request> request,
              const kj::Exception& failure);
  void give_up(const Error& why);

  Executor& loop_;
  Fail given_up_;
  kj::Maybe<wire::Session::Client> session_;
  std::uint64_t number_ = 0, outage_ = 0, order_ = 0;
  bool patient_ = true, ended_ = false;
  Error trouble_{ErrorKind::unavailable, "not connected to the cluster yet"};
  std::map<std::uint64_t, std::shared_ptr<Request>> waiting_;  // by the order in which they were made
  std::shared_ptr<int> alive_ = std::make_shared<int>();       // expires with this, for tasks on the loop
};

}  // namespace troupe
