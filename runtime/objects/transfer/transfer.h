// Moves objects between the stores of nodes. Each store listens on a port of its own for this; a puller asks
// the object's home for a source (PullPlan), receives from it straight into the arena, and passes on what has
// arrived to those that the home sends to it meanwhile. A source that fails is replaced, and the copy goes on
// where it was.
//
// Owner: the object store of the node. Thread: the control thread; bytes move on PullThreads. Dropping it
// ends all transfers. Errors of a pull go to ObjectHost::aborted: object_lost when the home does not know the
// object, unavailable when sources were of no use kMostTries times in a row without progress. While the home
// cannot be reached the pull goes on asking, until it is stopped or the home is lost.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/auth/token.h"
#include "core/control/acceptor.h"
#include "core/control/loop.h"
#include "runtime/objects/object_puller.h"
#include "runtime/objects/transfer/bytes.h"
#include "runtime/objects/transfer/pull_plan.h"
#include "runtime/objects/transfer/pull_threads.h"

namespace troupe {

class Transfer final : public ObjectPuller {
 public:
  static constexpr int kMostTries = 20;
  static constexpr auto kRetry = 200 * kj::MILLISECONDS;
  static constexpr auto kRequestTime = 5 * kj::SECONDS;

  Transfer(ControlLoop& loop, ObjectHost& host, Token token) : loop_(loop), host_(host), token_(token) {}
  ~Transfer() noexcept(false) override;

  // Listening; without a port for it, which is logged, this node fetches objects but passes none on.
  static std::unique_ptr<Transfer> create(ControlLoop& loop, ObjectHost& host, Token token,
                                          const std::string& at);
  // Where other nodes reach this one; the port is the kernel's choice.
  Result<void> listen(const std::string& host);

  void pull(const ObjectId& id) override;
  void stop(const ObjectId& id) override;
  void node_lost(NodeId node) override;
  // As the home of the object.
  kj::Promise<ObjectSource> source(const ObjectId& id, const ObjectAsker& asker) override;
  void fetched(const ObjectId& id, NodeId puller, bool whole) override;

 private:
  struct Pull {
    std::uint64_t number = 0;  // of this pull and its step: answers to an earlier one are of no use
    bool stopping = false;
    int tries = 0;
    std::uint64_t kept = 0;  // at the last try
    ObjectSource source;
    std::optional<ObjectHost::Place> place;
    std::shared_ptr<Filling> filling = std::make_shared<Filling>();
    std::uint64_t job = 0;
  };
  struct Address {
    std::string host;
    std::uint16_t port = 0;
  };

  Pull* find(const ObjectId& id, std::uint64_t number);
  void ask(const ObjectId& id, NodeId failed);
  void receive_from(const ObjectId& id, std::uint64_t number, ObjectSource source);
  void receive(const ObjectId& id, std::uint64_t number, kj::Own<SocketStream> stream);
  void received(const ObjectId& id, std::uint64_t number, Result<void> result);
  void failed(const ObjectId& id, std::uint64_t number, const Error& why);
  void give_up(const ObjectId& id, const Error& why);

  void serve(kj::Own<SocketStream> stream);
  void serve(UniqueFd socket, const PullRequest& request);
  void serve(UniqueFd socket, std::uint64_t from, ObjectHost::Place place, std::shared_ptr<Filling> filling);
  PullPlan& plan();
  void carry_out(PullPlan::Assignments assignments);
  void sweep();

  ControlLoop& loop_;
  ObjectHost& host_;
  Token token_;
  Address here_;
  std::unordered_map<ObjectId, Pull> pulls_;
  std::uint64_t last_number_ = 0;
  // As a home.
  std::unique_ptr<PullPlan> plan_;
  std::size_t swept_ = 64;
  std::map<NodeId, Address> addresses_;  // of those that have asked
  std::map<std::pair<ObjectId, NodeId>, kj::Own<kj::PromiseFulfiller<ObjectSource>>> asking_;
  // As a source: copies that are passed on while they come, and pinned for that when they are complete.
  struct Passing {
    int users = 0;
    std::shared_ptr<void> pin;
  };
  std::map<const Filling*, Passing> passing_;
  std::unique_ptr<Acceptor> acceptor_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  PullThreads threads_{loop_};  // ends first: its threads use nothing of the above but what they were given
};

}  // namespace troupe
