// The servers of the object store: wire::ObjectStore for an attached process, wire::ObjectPeer for the store
// of another node and for the `troupe` command.
//
// Owner: the connection. Thread: the control thread. They look at the store through a weak pointer.
#pragma once

#include <memory>

#include "core/protocol/objects.capnp.h"
#include "runtime/objects/object_state.h"

namespace troupe {

class ProcessServant final : public wire::ObjectStore::Server {
 public:
  ProcessServant(std::weak_ptr<ObjectState> state, std::uint64_t connection)
      : state_(std::move(state)), connection_(connection) {}
  kj::Promise<void> attach(AttachContext context) override;
  kj::Promise<void> update(UpdateContext context) override;
  kj::Promise<void> lease(LeaseContext context) override;
  kj::Promise<void> create(CreateContext context) override;
  kj::Promise<void> get(GetContext context) override;
  kj::Promise<void> cancel(CancelContext context) override;

 private:
  std::weak_ptr<ObjectState> state_;
  std::uint64_t connection_;
  StoreCore::Process process_ = 0;
};

class PeerServant final : public wire::ObjectPeer::Server {
 public:
  explicit PeerServant(std::weak_ptr<ObjectState> state) : state_(std::move(state)) {}
  ~PeerServant() noexcept(false);
  kj::Promise<void> hello(HelloContext context) override;
  kj::Promise<void> borrow(BorrowContext context) override;
  kj::Promise<void> give(GiveContext context) override;
  kj::Promise<void> claimed(ClaimedContext context) override;
  kj::Promise<void> memory(MemoryContext context) override;
  kj::Promise<void> list(ListContext context) override;
  kj::Promise<void> source(SourceContext context) override;
  kj::Promise<void> fetched(FetchedContext context) override;

 private:
  kj::Promise<void> lend(BorrowContext context, int tries);
  kj::Promise<void> source(SourceContext context, int tries);
  std::weak_ptr<ObjectState> state_;
  NodeId from_;
};

}  // namespace troupe
