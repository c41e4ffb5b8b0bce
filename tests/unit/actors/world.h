// A driver's lane and the lanes of workers in one process, joined by real links, with a directory that
// answers as a test says: actor calls without a cluster.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/call/actor_cell.h"
#include "runtime/call/peer.h"
#include "runtime/call/route.h"
#include "runtime/durable/durable_actor.h"
#include "runtime/durable/file_journal.h"
#include "runtime/lane/lane.h"
#include "tests/unit/core/link/endpoint.h"
#include "troupe/handle.h"

namespace troupe::test {

enum class Join { ring, tcp, local };

class World final : public Directory {
 public:
  struct Options {
    Join join = Join::ring;
    bool hand_off = false;
    std::chrono::microseconds poll = PollingPolicy::kDefaultBudget;
    int workers = 1;
  };

  World() : World(Options()) {}
  explicit World(Options options);
  ~World() override;

  Lane& driver() { return *driver_; }
  Lane& worker(int n = 0) { return *workers_[static_cast<std::size_t>(n)]; }

  // Makes an actor on a worker's lane and tells the directory. Its id stays when it is made again.
  template <class T>
  ActorId spawn(int worker = 0) {
    ActorId id = actor_of({7}, ++actors_);
    register_class(detail::TableOf<T>::table);
    place(id, 1, detail::TableOf<T>::table, worker);
    return id;
  }
  void place(ActorId id, std::uint32_t incarnation, const ClassTable& table, int worker);
  static void register_class(const ClassTable& table);
  // The same for a durable actor with files in `folder`; the error is why it could not be made.
  Result<void> place_durable(ActorId id, std::uint32_t incarnation, const ClassTable& table, int worker,
                             const std::string& folder, const Durability& plan = {},
                             JournalIo& io = JournalIo::real());
  ActorId next_id() { return actor_of({7}, ++actors_); }
  // Ends the incarnation; the directory knows of it when `told`.
  void end(ActorId id, bool told = true);
  void tell(ActorNews news);  // answers who asks from now on, and who asked and waits
  void forget(ActorId id);    // who asks waits
  // To all who ask for the end of an incarnation that lives: the head knows of none, only their link broke.
  void verdict();
  ActorNews news_of(ActorId id, std::uint32_t incarnation, Phase phase, const std::string& class_name,
                    int worker);
  // Cuts all links between the driver and a worker, as the death of its process would.
  void cut(int worker = 0);

  std::atomic<int> questions{0}, connects{0}, observations{0};
  std::function<Result<void>()> refuse_connect;  // set before use

  void resolve(ActorId actor, std::uint32_t after, Lane& lane) override;
  void connect(std::shared_ptr<const Place> place, Lane& lane) override;
  void observed(ActorId) override { ++observations; }
  ProcessId self() const override { return {1}; }
  Lane* lane_at(std::uint16_t index) override;

  // Runs `f` under the baton of a lane, in its thread, and waits for it.
  static void on(Lane& lane, const std::function<void()>& f);

 private:
  struct Known {
    ActorNews news;
    bool told = false;
    std::vector<std::pair<Lane*, std::uint32_t>> asking;
  };
  bool answers(const Known& known, std::uint32_t after) const;

  Options options_;
  std::unique_ptr<JournalThread> journals_;
  std::unique_ptr<Lane> driver_;
  std::vector<std::unique_ptr<Lane>> workers_;
  std::atomic<std::uint64_t> actors_{0};
  std::mutex mutex_;
  std::map<std::uint64_t, Known> known_;
  std::vector<std::pair<int, std::pair<UniqueFd, UniqueFd>>>
      wires_;  // copies of the links' sockets, by worker
};

// What Handle is, without a Process: calls an actor through a lane.
template <class T>
class Caller {
 public:
  Caller(Lane& lane, ActorId id) : lane_(&lane), actor_(std::make_shared<detail::ActorRef>(id)) {}

  template <auto M, class... A>
  detail::CallResult<M> call(A&&... arguments) const {
    return call_with<M>(CallRequest(), std::forward<A>(arguments)...);
  }
  template <auto M, class... A>
  detail::CallResult<M> call_with(CallRequest request, A&&... arguments) const {
    using Outcome = detail::Outcome<typename detail::MethodTraits<decltype(M)>::Returned>;
    using Value = typename Outcome::Value;
    detail::TypedSource<T, M> source(
        typename detail::TypedSource<T, M>::Arguments{std::forward<A>(arguments)...});
    request.method = ordinal<M>;
    if constexpr (Outcome::streams) {
      request.credit = kStreamWindow;
      auto state = Ref<detail::StreamState<Value>>::adopt(new detail::StreamState<Value>(*lane_));
      detail::submit(*lane_, actor_, source, request, state.get());
      return Stream<Value>(std::move(state));
    } else {
      auto state = Ref<detail::FutureState<Value>>::adopt(new detail::CallFutureState<Value>(*lane_));
      detail::submit(*lane_, actor_, source, request, state.get());
      return Future<Value>(std::move(state));
    }
  }
  template <auto M, class... A>
  void tell(A&&... arguments) const {
    detail::TypedSource<T, M> source(
        typename detail::TypedSource<T, M>::Arguments{std::forward<A>(arguments)...});
    CallRequest request;
    request.method = ordinal<M>;
    detail::submit(*lane_, actor_, source, request, nullptr);
  }

 private:
  template <auto M>
  static constexpr auto ordinal =
      static_cast<std::uint16_t>(detail::ordinal_in<M>(typename detail::DescriptionOf<T>::Listed{}));
  Lane* lane_;
  std::shared_ptr<detail::ActorRef> actor_;
};

// For actors that call others.
template <class T>
Caller<T> here(std::uint64_t id) {
  return Caller<T>(*Lane::current(), ActorId{id});
}

inline CallRequest retries(int n) {
  CallRequest request;
  request.retries = n;
  return request;
}
inline CallRequest deadline(std::chrono::nanoseconds time) {
  CallRequest request;
  request.deadline = detail::limit_after(time);
  return request;
}

// The error a future fails with; kind `internal` and "no failure" when it does not.
template <class R>
Error failure(Future<R> future) {
  try {
    (void)future.get();
  } catch (const Failure& e) {
    return e.error();
  }
  return Error(ErrorKind::internal, "no failure");
}

}  // namespace troupe::test
