// Accepts connections on a listening socket and lets through only peers that prove they know the cluster's
// token, before anything else they say is parsed. Used for control connections and for links.
//
// Owner: the process's server. Thread: the control thread. Dropping it stops listening and drops connections
// that are still proving themselves; those handed on live by themselves. At most kMaxUnproven peers may be
// proving at once and each has kProofTime; refusals are logged, at a limited rate.
#pragma once

#include <functional>
#include <string>

#include "core/auth/token.h"
#include "core/base/log.h"
#include "core/control/stream.h"

namespace troupe {

// How long a connect may take, and each side's proof.
inline constexpr int kConnectMs = 5000;
inline constexpr int kProofMs = 5000;

class Acceptor final : private kj::TaskSet::ErrorHandler {
 public:
  static constexpr unsigned kMaxUnproven = 256;
  using Handler = std::function<void(kj::Own<SocketStream>)>;

  Acceptor(ControlLoop& loop, UniqueFd listening, Token token, Handler on_peer);
  ~Acceptor() noexcept(false);

 private:
  struct Watch;
  void accept_ready();
  void prove(UniqueFd fd);
  void refuse(const std::string& why);
  void taskFailed(kj::Exception&& failure) override;

  ControlLoop& loop_;
  Token token_;
  Handler on_peer_;
  RateLimit refusals_{5};
  unsigned unproven_ = 0;
  kj::TaskSet proofs_;
  std::shared_ptr<Watch> watch_;
};

// Both halves of the proof over a stream; rejected with an Error of kind unauthenticated or unavailable.
kj::Promise<void> prove_to_server(SocketStream& stream, const Token& token);
kj::Promise<void> prove_to_client(SocketStream& stream, const Token& token);

}  // namespace troupe
