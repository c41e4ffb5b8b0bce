// The fault points of one kind of RPC: a request that is lost, or its answer. Either shows to the caller as a
// broken connection does, while the connection lives on.
//
// Owner: static storage of the file that sends. Thread: the control thread.
#pragma once

#include <kj/async.h>

#include "core/base/fault_point.h"
#include "core/control/kj_error.h"

namespace troupe {

class CallFaults {
 public:
  CallFaults(const char* lose_request, const char* lose_reply)
      : lose_request_(lose_request), lose_reply_(lose_reply) {}

  template <class Request>
  kj::Promise<void> send(Request& request) {
    if (lose_request_.fires()) return lost("request");
    auto answer = request.send().ignoreResult();
    if (!lose_reply_.fires()) return answer;
    return answer.then([]() -> kj::Promise<void> { return lost("answer"); });
  }

 private:
  static kj::Exception lost(const char* what) {
    return kj_exception(Error(ErrorKind::unavailable, std::string("a fault point lost the ") + what));
  }

  FaultPoint lose_request_, lose_reply_;
};

}  // namespace troupe
