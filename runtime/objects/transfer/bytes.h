// Both ends of one pull, each on a thread of its own that may block: the source sends an object's bytes from
// the arena's file, the puller receives them in place. Neither holds anything of the control thread.
//
// The calling thread has SIGPIPE blocked or ignored. The sockets are blocking and have limits for silence;
// shutting one down from another thread ends its call. Errors: unavailable, what the other side said or how
// the connection ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "runtime/objects/transfer/filling.h"
#include "runtime/objects/transfer/wire.h"

namespace troupe {

// Makes the socket what the two functions expect.
Result<void> prepare_pull_socket(int socket);

struct PullSource {
  int file = -1;             // the arena's
  std::uint64_t offset = 0;  // of the object in it
  std::uint64_t size = 0;
  std::shared_ptr<Filling> filling;  // null: all of it is there
};
// Returns when the puller has all of it, or with the reason why not.
Result<void> send_object(int socket, const PullSource& source, std::uint64_t from);
// Tells the puller why it gets nothing.
void refuse_pull(int socket, const Error& why);

struct PullTarget {
  std::byte* bytes = nullptr;
  std::uint64_t size = 0;
};
// `filling` says how far the copy has come, and where to go on after an error.
Result<void> receive_object(int socket, const ObjectId& id, const PullTarget& target, Filling& filling);

}  // namespace troupe
