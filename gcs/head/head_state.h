// The running head behind its servers: applies events to the core in turns, keeps the order between the store
// and the world, and knows the peers.
//
// Owner: HeadServer (shared, so that servers that outlive it see that it is gone). Thread: the control
// thread.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "gcs/control_store/control_store.h"
#include "gcs/head/groups.h"
#include "gcs/head/head_server.h"
#include "gcs/head/peers.h"
#include "gcs/store/store.h"

namespace troupe::gcs {

// What a head that no longer owns the store tells its clients: to them as if the connection broke, so that
// they ask the same of the next head.
kj::Exception replaced_head(const Store& store);

class HeadState : public std::enable_shared_from_this<HeadState>, public kj::TaskSet::ErrorHandler {
 public:
  HeadState(kj::Timer& timer, Store& store, HeadServer::Options options);

  kj::Promise<void> start();
  void close();  // nothing is sent or written any more

  // Applies now; actions that need no durability are carried out at the end of this turn of the loop.
  void apply(Event event);
  void apply_later(Event event);  // safe anywhere, also in destructors

  // An event with an answer. `make` gets the number to put into the event. The answer to a change comes when
  // it is durable. `at_once` runs with the answer, before anything that follows from it is sent. Rejected
  // with the Error.
  template <class Make>
  kj::Promise<kj::Own<Answer>> ask(Make&& make, kj::Function<void(const Answer&)> at_once) {
    auto pair = kj::newPromiseAndFulfiller<kj::Own<Answer>>();
    RequestId request = ++last_request_;
    asks_.emplace(request, Ask{kj::mv(pair.fulfiller), kj::mv(at_once)});
    apply(make(request));
    return kj::mv(pair.promise);
  }
  template <class Make>
  kj::Promise<kj::Own<Answer>> ask(Make&& make) {
    return ask(std::forward<Make>(make), [](const Answer&) {});
  }
  void refuse_if_overloaded() const;  // throws

  // Peers.
  void add_node(NodeId id, wire::Agent::Client agent);
  void node_gone(NodeId id, const NodePeer* peer, const std::string& reason);  // if `peer` is still the one
  void seen(NodeId id);  // throws if it was declared lost
  NodePeer* node(NodeId id);
  std::uint64_t add_client(ProcessId process, wire::JobClient::Client client);
  void client_gone(ProcessId process, std::uint64_t generation);
  ClientPeer* client(ProcessId process);
  void flush_client(ProcessId process);

  void request_shutdown();
  kj::Promise<void> shutdown_requested() { return shutdown_.addBranch(); }

  void schedule();  // a turn's end
  void background(kj::Promise<void> task) { tasks_.add(kj::mv(task)); }

  const ControlStore& core() const { return core_; }
  const Store& store() const { return store_; }
  Store& writable_store() { return store_; }  // for journals, which the core knows nothing of
  // Of journals in the store, when the store has lost the end of what was acknowledged.
  std::set<ActorId>& incomplete_journals() { return incomplete_journals_; }
  const HeadServer::Options& options() const { return options_; }
  kj::Timer& timer() { return timer_; }
  Groups& groups() { return groups_; }
  Time now() const { return options_.now(); }
  Time started() const { return started_; }
  std::size_t quarantined() const { return quarantined_; }
  void set_address(std::string address) { options_.address = std::move(address); }

  void taskFailed(kj::Exception&& failure) override;

 private:
  struct Ask {
    kj::Own<kj::PromiseFulfiller<kj::Own<Answer>>> fulfiller;
    kj::Function<void(const Answer&)> at_once;
  };
  using Key = std::pair<Table, std::uint64_t>;

  void restore(Result<Tables> loaded, kj::PromiseFulfiller<void>& done);
  void take(Actions& actions);
  void carry_out(Action action);
  void answer(RequestId request, Answer answer);
  void refuse(Reply reply, const Error& error);
  void end_turn();
  void write_batch();
  void written(Turn turn, std::vector<Key> keys, Result<void> result);
  void arm_tick();
  kj::Promise<void> watch_nodes();
  kj::Promise<void> watch_ownership();
  void end_if_fenced(const Result<void>& result);

  kj::Timer& timer_;
  Store& store_;
  HeadServer::Options options_;
  ControlStore core_;
  Time started_ = 0;
  bool closed_ = false;

  Turn turn_ = 1;  // what changes now belongs to it
  Turn durable_ = 0;
  bool writing_ = false;
  bool scheduled_ = false;
  std::set<Key> dirty_;
  std::deque<Action> waiting_;  // for a batch, in order
  std::size_t waiting_replies_ = 0;
  std::deque<Event> later_;
  std::size_t quarantined_ = 0;
  std::set<ActorId> incomplete_journals_;

  RequestId last_request_ = 0;
  std::unordered_map<RequestId, Ask> asks_;
  std::uint64_t last_generation_ = 0;
  std::map<NodeId, std::unique_ptr<NodePeer>> nodes_;
  std::unordered_map<ProcessId, std::unique_ptr<ClientPeer>> clients_;
  std::set<NodeId> nodes_to_flush_;
  std::set<NodeId> nodes_to_drop_;
  std::set<ProcessId> clients_to_flush_;

  Groups groups_;
  kj::Vector<kj::Promise<void>> farewells_;  // to agents that were told to end
  Time tick_at_ = 0;
  kj::Own<kj::PromiseFulfiller<void>> end_;
  kj::ForkedPromise<void> shutdown_ = nullptr;
  kj::TaskSet tasks_;
};

}  // namespace troupe::gcs
