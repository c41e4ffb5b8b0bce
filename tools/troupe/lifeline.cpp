#include "tools/troupe/lifeline.h"

#include <fcntl.h>

#include <csignal>

namespace troupe::tools {

EndRequests::EndRequests(ControlLoop& loop, int lifeline, std::function<void(const std::string&)> on_request)
    : on_request_(std::move(on_request)), signals_(loop.io(), SIGINT, SIGTERM), lifeline_(loop.io()) {
  wait_for_signal();
  if (lifeline < 0 || ::fcntl(lifeline, F_SETFD, FD_CLOEXEC) != 0) return;
  lifeline_.assign(lifeline);
  lifeline_.async_wait(asio::posix::descriptor_base::wait_read,
                       [this, alive = std::weak_ptr(alive_)](const std::error_code& bad) {
                         if (!bad && !alive.expired()) on_request_("the command that started it has ended");
                       });
}

void EndRequests::wait_for_signal() {
  // A signal that has arrived is told even after this is gone.
  signals_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& bad, int number) {
    if (bad || alive.expired()) return;
    on_request_(number == SIGINT ? "interrupted" : "told to end by a signal");
    wait_for_signal();
  });
}

}  // namespace troupe::tools
