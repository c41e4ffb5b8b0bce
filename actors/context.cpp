#include "troupe/context.h"

#include "runtime/call/actor_cell.h"
#include "runtime/call/invocation.h"
#include "runtime/durable/durable_actor.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

const ActorCell& cell() {
  const ActorCell* found = current().cell;
  if (found == nullptr) {
    throw_failure(Error(ErrorKind::invalid_argument, "troupe::context() belongs to the code of an actor"));
  }
  return *found;
}

}  // namespace

const Context& context() {
  static const Context instance;
  cell();
  return instance;
}

ActorId Context::id() const { return cell().identity().id; }
std::uint32_t Context::incarnation() const { return cell().identity().incarnation; }
JobId Context::job() const { return cell().identity().job; }
NodeId Context::node() const { return cell().identity().node; }
const std::string& Context::node_name() const { return cell().identity().node_name; }
const std::string& Context::name() const { return cell().identity().name; }
const std::vector<std::uint16_t>& Context::gpus() const { return cell().identity().gpus; }

bool Context::cancelled() const {
  const Invocation* call = current().call;
  // This thread is the one that would read of it.
  cell().lane().look();
  if (cell().ended()) return true;
  if (call == nullptr) return false;
  if (call->cancelled) return true;
  return call->deadline != 0 &&
         std::chrono::steady_clock::now().time_since_epoch() >= std::chrono::nanoseconds(call->deadline);
}

bool Context::replaying() const { return cell().durable() != nullptr && cell().durable()->replaying(); }

void Context::snapshot() const {
  if (cell().durable() == nullptr) {
    throw_failure(Error(ErrorKind::invalid_argument, "context().snapshot() belongs to durable actors"));
  }
  cell().durable()->request_snapshot();
}

std::uint64_t Context::trace() const { return current().call != nullptr ? current().call->trace : 0; }

}  // namespace troupe
