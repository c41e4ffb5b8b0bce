// One attachment of this process to the store of its node: its memory, what the store is still to be told,
// blanks in reserve. When the store ends, the session is dead: what it held is lost, what is being read stays
// mapped.
//
// Owner: ObjectClient and the handles made in it. Any thread, but for what is marked.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/control/rpc.h"
#include "core/protocol/objects.capnp.h"
#include "runtime/objects/arena_copy.h"
#include "runtime/objects/object_client.h"
#include "runtime/objects/pin_page.h"

namespace troupe {

struct ObjectSession : std::enable_shared_from_this<ObjectSession> {
  std::unique_ptr<ObjectTable> table;
  std::optional<PinPage> pins;
  NodeId node;
  std::uint32_t cluster = 0;
  std::uint64_t process = 0;
  std::atomic<bool> dead{false};
  std::atomic<std::uint64_t> objects{0};
  std::optional<ArenaCopy> copy;

  std::mutex mutex;  // guards what follows
  std::vector<ObjectClient::Op> ops;
  bool posted = false;
  std::map<std::uint64_t, std::vector<StoreCore::Blank>> blanks;  // by size
  std::set<std::uint64_t> refilling;
  std::unordered_map<ObjectId, std::shared_ptr<const void>> kept;  // for objects that are watched
  bool used = false;                                               // a blank was taken since the last look
  bool watched = false;                                            // somebody looks whether they are idle
  bool wanted = false;  // the store is short of memory: what comes back is not kept

  // The control thread's; dropped there when the session ends.
  kj::Maybe<wire::ObjectStore::Client> store;
  kj::Own<RpcConnection> connection;
};

}  // namespace troupe
