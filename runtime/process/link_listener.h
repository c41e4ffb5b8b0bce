// Where a worker takes links: a Unix socket for callers on its machine and, if it is to be reached from
// others, a TCP port of the kernel's choice.
//
// Owner: Process. Thread: the control thread. Errors: those of listen_on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/auth/token.h"
#include "core/control/acceptor.h"
#include "core/control/loop.h"
#include "runtime/lane/lane.h"
#include "runtime/process/link_setup.h"
#include "runtime/worker/worker_start.h"

namespace troupe {

class LinkListener {
 public:
  LinkListener(ControlLoop& loop, const LinkIdentity& self, const Token& token,
               std::vector<std::unique_ptr<Lane>>& lanes, OnLink on_link)
      : loop_(loop), self_(self), token_(token), lanes_(lanes), on_link_(std::move(on_link)) {}
  LinkListener(const LinkListener&) = delete;

  // The place that callers connect to, but for the lane.
  Result<Place> listen(const WorkerStart& start);

 private:
  ControlLoop& loop_;
  LinkIdentity self_;
  Token token_;
  std::vector<std::unique_ptr<Lane>>& lanes_;
  OnLink on_link_;
  std::unique_ptr<Acceptor> unix_, tcp_;
};

}  // namespace troupe
