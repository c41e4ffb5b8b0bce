// A command's connection to the head, used one call after the other.
//
// Owner: the command. Thread: main. Failures are thrown as Failed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/config/head_connection.h"
#include "core/control/kj_error.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "tools/troupe/command.h"

namespace troupe::tools {

class HeadClient {
 public:
  explicit HeadClient(const std::optional<std::string>& head);

  wire::Admin::Client admin() { return admin_; }
  // Waits for a call's answer, 30 s at most.
  template <class T>
  auto wait(T&& promise) {
    try {
      auto late =
          loop_.timer().afterDelay(30 * kj::SECONDS).then([]() -> decltype(promise.wait(loop_.scope())) {
            kj::throwFatalException(
                kj_exception(Error(ErrorKind::deadline_exceeded, "the head did not answer in 30 s")));
          });
      return kj::Promise<decltype(promise.wait(loop_.scope()))>(kj::mv(promise))
          .exclusiveJoin(kj::mv(late))
          .wait(loop_.scope());
    } catch (const kj::Exception& failure) {
      throw Failed(error_of(failure));
    }
  }
  kj::Own<RpcConnection> connect(const Address& address);  // to another process of the cluster
  // True when the head closed the connection within that time.
  bool wait_for_end(kj::Duration patience);

 private:
  ControlLoop loop_;
  std::optional<Token> token_;
  kj::Own<RpcConnection> connection_;
  wire::Admin::Client admin_{nullptr};
};

// Adds --head to a command.
void add_head_option(CLI::App& app, std::optional<std::string>& head);

}  // namespace troupe::tools
