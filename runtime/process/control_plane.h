// The control thread's half of a process: the session with the head, spawns, questions about actors, links
// being set up. Everything here runs on the control thread; Process posts to it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/control/executor.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/process/group_client.h"
#include "runtime/process/head_session.h"
#include "runtime/process/link_setup.h"
#include "runtime/process/process.h"

namespace troupe {

class ControlPlane {
 public:
  // How long a lane waits for the head's word on calls whose link broke: longer than a silent node or a dead
  // head takes to be noticed.
  static constexpr int kVerdictMs = 4'000;
  static constexpr std::size_t kMostLost = 4096;
  static constexpr std::size_t kSpawnsPerCall = 2048;
  static constexpr std::size_t kSpawnBytesPerCall = 8 << 20;

  struct Hooks {
    // Incarnations that must not be listened to any more: all of a node, or this one and all before it.
    std::function<void(NodeId)> node_lost;
    std::function<void(ActorId, std::uint32_t, std::shared_ptr<const Error> cause)> incarnation_over;
    std::function<void(const ActorNews&)> died;  // an actor spawned here is dead for good
    // Sets a link up from one of our lanes to a place; link_setup.h in the product.
    std::function<kj::Promise<kj::Own<std::unique_ptr<Link>>>(const Place&, const LinkIdentity& self, Lane&)>
        connect;
  };

  ControlPlane(Executor& loop, LinkIdentity self, Hooks hooks);
  ~ControlPlane() noexcept(false);

  // The job and process number, once the head has given them.
  void identify(const LinkIdentity& self) { self_ = self; }
  void use_session(wire::Session::Client session);
  kj::Maybe<wire::Session::Client>& session() { return session_.current(); }  // none while the head is away
  // What the head is given to tell news through.
  wire::JobClient::Client client();
  // The head cannot be reached: requests wait, with a bound, for the next session.
  void session_lost() { session_.lost(); }
  // There will be none: requests fail from now on.
  void end_session(const Error& why) { session_.end(why); }

  void spawn(std::vector<SpawnRequest> requests);
  void spawn_named(SpawnRequest request, Answer<ActorId> answer);
  void find(const std::string& name, const std::string& class_name, Answer<ActorId> answer);
  void kill(ActorId actor, bool no_restart, Answer<bool> answer);
  void nodes(Answer<std::vector<NodeSummary>> answer);
  void resolve(ActorId actor, std::uint32_t after, Lane& lane);
  void connect(std::shared_ptr<const Place> place, Lane& lane);
  GroupClient& groups() { return groups_; }

  const LinkIdentity& self() const { return self_; }

 private:
  class Client;
  struct Waiter {
    Lane* lane;
    std::uint32_t after;
    std::uint64_t number;
  };
  struct Known {
    ActorNews news;
    bool ours = false;   // the head tells its changes
    bool asked = false;  // a question is with the head
    std::uint32_t asked_after = 0;
    std::uint64_t question = 0;  // its number
    std::vector<Waiter> waiters;
  };

  void told(ActorNews news);                                 // by the head, unasked: of an actor spawned here
  void changed(ActorNews news, std::uint64_t question = 0);  // 0: it was told unasked
  void answer_waiters(Known& known);
  void ask(ActorId actor, Known& known);
  void ask_failed(ActorId actor, std::uint64_t question, const Error& why);
  void give_up(const Error& why);
  void drop_links_to_lost_nodes();
  void lost(NodeId node);
  bool is_lost(const ActorNews& news) const;
  kj::Promise<void> send_spawns(wire::Session::Client& session, const std::vector<SpawnRequest>& part);
  static bool answers(const ActorNews& news, std::uint32_t after);
  void spawn_failed(ActorId actor, const std::string& class_name, const Error& why);
  void forget_if_unused(ActorId actor);

  Executor& loop_;
  LinkIdentity self_;
  Hooks hooks_;
  HeadSession session_;
  GroupClient groups_;
  std::unordered_map<ActorId, Known> known_;
  std::map<std::pair<ProcessId, std::uint16_t>, std::weak_ptr<const Place>>
      places_;  // one copy for all actors there
  // Nodes that the head has declared lost, and the number of the last question before: what it says of actors
  // there in answer to later ones is true, whatever became of the node since. The last kMostLost.
  std::map<NodeId, std::uint64_t> lost_;
  std::uint64_t question_ = 0;
  std::uint64_t waiter_number_ = 0;
  kj::Own<kj::TaskSet::ErrorHandler> on_failure_;
  kj::Own<kj::TaskSet> tasks_;
};

}  // namespace troupe
