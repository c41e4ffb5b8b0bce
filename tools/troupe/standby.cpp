#include "tools/troupe/standby.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "core/control/loop.h"
#include "gcs/store/redis_lease.h"
#include "tools/troupe/command.h"
#include "tools/troupe/lifeline.h"

namespace troupe::tools {
namespace {

constexpr auto kLook = 100 * kj::MILLISECONDS;

kj::Promise<bool> locked(kj::Timer& timer, int lock) {
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
  return timer.afterDelay(kLook).then([&timer, lock] { return locked(timer, lock); });
}

// Runs `ready` until it is done, or false until this command is asked to end.
template <class Make>
bool until_ready(int lifeline, Make&& make) {
  ControlLoop loop;
  auto end = kj::newPromiseAndFulfiller<bool>();
  EndRequests requests(loop, lifeline, [&](const std::string&) { end.fulfiller->fulfill(false); });
  return make(loop).exclusiveJoin(kj::mv(end.promise)).wait(loop.scope());
}

}  // namespace

UniqueFd wait_for_state(const std::string& state, int lifeline) {
  UniqueFd lock(::open((state + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) throw Failed(system_error(errno, "cannot open " + state + "/lock"));
  bool mine = until_ready(lifeline, [&](ControlLoop& loop) { return locked(loop.timer(), lock.get()); });
  if (!mine) lock.reset();
  return lock;
}

bool wait_for_lease(const gcs::RedisAddress& address, int lifeline) {
  std::unique_ptr<gcs::RedisLease> lease;
  return until_ready(lifeline, [&](ControlLoop& loop) {
    auto pair = kj::newPromiseAndFulfiller<bool>();
    lease = std::make_unique<gcs::RedisLease>(loop.io(), address);
    lease->watch([fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<bool>>>(kj::mv(pair.fulfiller))] {
      (*fulfiller)->fulfill(true);
    });
    return pair.promise.attach(kj::defer([&lease] { lease.reset(); }));
  });
}

}  // namespace troupe::tools
