// Where a lane sends the calls for each actor it talks to, and what waits until that is known.
//
//   unknown ──first call──▶ asking ──alive──▶ linking ──▶ open        calls go out as frames
//      ▲                      │   └─alive, same process──▶ local      calls go to the actor's lane as they
//      are └──gone, link lost─────┘   └─dead──▶ dead                      calls fail at once with the cause
//
// Calls made meanwhile wait in order. Calls in flight when an incarnation ends are sent again if they have
// retries left, in their old order and before later ones; otherwise they fail with ActorDied once the head
// has told why.
//
// Owner: the lane. Thread: under its baton. A route lives while a handle, a call or a question needs it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/pool.h"
#include "core/base/ref.h"
#include "runtime/call/call_state.h"
#include "runtime/call/directory.h"
#include "runtime/call/frame.h"
#include "runtime/call/outstanding.h"

namespace troupe {

class Invocation;
class Peer;
struct ClassTable;

// A call as the typed layer hands it in; lives on the caller's stack.
class CallSource {
 public:
  virtual void encode(Writer& to) = 0;
  virtual Invocation* make_local() = 0;

 protected:
  ~CallSource() = default;
};

struct CallRequest {
  std::uint16_t method = 0;
  int retries = 0;
  std::int64_t deadline = 0;  // steady nanoseconds, 0: none
  std::uint32_t credit = 0;
  std::uint64_t trace = 0;
};

// A call that waits, or may be sent again; arguments encoded.
struct QueuedCall : OutstandingCall, Pooled {
  CallRequest request;
  std::vector<std::byte> args;
  std::unique_ptr<Attachments> attachments;  // what the arguments refer to
  HopList chain;
  Ref<CallState> state;  // null: one way
};

struct Route {
  enum State : std::uint8_t { unknown, asking, linking, open, local, dead };

  explicit Route(ActorId id) : actor(id) {}

  ActorId actor;
  State state = unknown;
  bool durable = false;  // calls are numbered, and sent again until they are answered
  bool dropped = false;  // no handle is left: forget it when nothing needs it
  std::uint32_t handles = 0;
  std::uint32_t incarnation = 0;  // the last one known
  std::uint32_t ended = 0;        // incarnations up to this one have ended
  std::uint8_t failures = 0;      // connects in a row
  std::uint32_t in_flight = 0;
  Peer* peer = nullptr;
  Lane* local_lane = nullptr;
  const ClassTable* local_table = nullptr;
  Outstanding outstanding;  // when durable
  bool observed = false;    // a caller has got the news of its death
  bool returning = false;   // calls to a lane of this process may still come back undone
  std::map<std::uint64_t, std::unique_ptr<QueuedCall>> waiting;  // by number: in the order made
  std::vector<Ref<CallState>> orphans;                           // were in flight, wait for the verdict
  std::string broke;                                             // why the link ended that they were on
  std::shared_ptr<const Error> death;
};

class RouteTable {
 public:
  static constexpr std::size_t kMostWaiting = 1 << 20;  // calls that wait for one actor
  static constexpr int kConnectTries = 5;

  explicit RouteTable(Lane& lane) : lane_(lane) {}
  ~RouteTable();

  Route& of(ActorId actor);
  void add_handle(Route& route) { ++route.handles; }
  void drop_handle(ActorId actor);

  // `state` null: one way. Failures, also immediate ones, show in the state; only what the encoding of an
  // argument throws is thrown.
  void submit(Route& route, CallSource& source, const CallRequest& request, CallState* state);
  void submit_encoded(Route& route, std::unique_ptr<QueuedCall> call);

  // Ends a call early: fails the state and tells whoever works on it.
  void abandon(CallState& state, const Error& why);

  // The reader of a stream takes `items` more.
  void grant(CallState& state, std::uint32_t items);

  // From the directory.
  void learn(const ActorNews& news);
  void learn_failed(ActorId actor, const Error& why);
  void linked(const Place& place, Result<std::unique_ptr<Link>> link);

  // From peers and local invocations: the incarnation does not live there; the call did not run.
  void gone(ActorId actor, std::uint32_t incarnation, Ref<CallState> state, const Error& why);
  void link_lost(Peer& peer, const std::string& reason);
  // The head says that this incarnation, and so all before it, has ended or must: what was answered by now
  // counts, later replies do not.
  void incarnation_over(ActorId actor, std::uint32_t incarnation,
                        std::shared_ptr<const Error> cause = nullptr);
  // That node was declared lost: incarnations there are not listened to any more, whether they live or not.
  void node_lost(NodeId node);
  void call_ended(Route& route);  // one in flight less

  void shutdown(const std::string& why);
  std::string check() const;  // what is wrong with the tables, or nothing

 private:
  std::string check(const Route& route) const;
  struct LinkEntry {
    Peer* peer = nullptr;
    NodeId node;
    bool fenced = false;  // the node was lost before the link was there
    std::vector<ActorId> waiting;
  };
  using PlaceKey = std::pair<ProcessId, std::uint16_t>;

  void ask(Route& route);
  void await_returns(Route& route, Lane& there);
  void dispatch(Route& route, CallSource& source, const CallRequest& request, std::uint64_t number,
                CallState* state);
  void retain(std::unique_ptr<QueuedCall> call);  // was sent: kept while it may be sent again
  void enqueue(Route& route, std::unique_ptr<QueuedCall> call);
  void requeue(Route& route, CallState& state);
  void cut_off(Route& route, Ref<CallState> state);
  void take_back_in_flight(Route& route, std::uint64_t after);  // that number of a call
  void open_link(Route& route, const ActorNews& news);
  void send_waiting(Route& route);
  void move_waiting(Route& route);  // what has been put back among them goes where the route is by now
  bool send(Route& route, QueuedCall& call);  // false: the link is ending, keep it
  void send_local(Route& route, Invocation* call, const CallRequest& request, HopList chain, CallState* state,
                  std::unique_ptr<OnceCall> once = nullptr);
  CallNumber number(Route& route, QueuedCall& call);
  void fail_waiting(Route& route, const Error& why);
  // `died`: the head told so; else only the link is known to have broken.
  void fail_orphans(Route& route, bool died, const Error* cause);
  void forget_if_unused(Route& route);
  void observe_death(Route& route);

  Lane& lane_;
  std::unordered_map<ActorId, std::unique_ptr<Route>> routes_;
  std::map<PlaceKey, LinkEntry> links_;
  Writer scratch_;
};

// The chain a call made now must carry: the hops of the running call and this one.
void make_chain(HopList& out, std::uint64_t call_number);
Error died_error(ActorId actor, std::uint32_t incarnation, const Error* cause);

}  // namespace troupe
