// Handle<T>: the address of an actor of class T, wherever it lives. Copyable, an argument and a result of
// calls; any thread. Calls of one handle run in the order they were made. A handle does not keep its actor
// alive.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/call/route.h"
#include "troupe/detail/method.h"
#include "troupe/detail/object_origin.h"
#include "troupe/options.h"

namespace troupe {

namespace detail {

// What handles of one actor share: its id, and which lanes keep a route for it.
class ActorRef {
 public:
  explicit ActorRef(ActorId id) : id_(id) {}
  ActorRef(const ActorRef&) = delete;
  ~ActorRef();
  ActorId id() const { return id_; }
  Route& route(Lane& lane);  // under the lane's baton

 private:
  ActorId id_;
  std::atomic<Lane*> first_{nullptr};
  Route* first_route_ = nullptr;
  std::atomic<std::uint64_t> lanes_{0};
};

// The lane that carries a call made now by this thread.
Lane& calling_lane();
// Hands the call to the lane: at once when this thread holds or gets its baton, else encoded, as a task.
void submit(Lane& lane, const std::shared_ptr<ActorRef>& actor, CallSource& source,
            const CallRequest& request, CallState* state);

template <class T, auto M, class... A>
class TypedSource final : public CallSource {
 public:
  using Arguments = typename MethodTraits<decltype(M)>::Arguments;
  explicit TypedSource(Arguments&& arguments) : arguments_(std::move(arguments)) {}
  void encode(Writer& to) override { encode_tuple(to, arguments_); }
  Invocation* make_local() override { return new InvocationOf<T, M>(std::move(arguments_)); }

 private:
  Arguments arguments_;
};

}  // namespace detail

template <class T>
class Handle {
 public:
  Handle() = default;  // of no actor; only assignment is allowed
  explicit Handle(ActorId id) : actor_(std::make_shared<detail::ActorRef>(id)) {}

  ActorId id() const { return actor_ ? actor_->id() : ActorId{}; }
  explicit operator bool() const { return actor_ != nullptr; }
  bool operator==(const Handle& other) const { return id() == other.id(); }

  // Future<R> of the method's result; Stream<V> for a method that returns Generator<V>.
  template <auto M, class... A>
  detail::CallResult<M> call(A&&... arguments) const {
    return call_with<M>(CallOptions(), std::forward<A>(arguments)...);
  }
  // One way: no result, no failure, no retries.
  template <auto M, class... A>
  void tell(A&&... arguments) const {
    check<M, A...>();
    using Source = detail::TypedSource<T, M>;
    Source source(typename Source::Arguments{std::forward<A>(arguments)...});
    CallRequest request;
    request.method = ordinal<M>;
    detail::submit(detail::calling_lane(), actor_, source, request, nullptr);
  }

  // handle.with(CallOptions().deadline(2s).retries(3)).call<&T::method>(…)
  class Bound {
   public:
    Bound(const Handle& handle, CallOptions options) : handle_(handle), options_(options) {}
    template <auto M, class... A>
    detail::CallResult<M> call(A&&... arguments) const {
      return handle_.template call_with<M>(options_, std::forward<A>(arguments)...);
    }

   private:
    const Handle& handle_;
    CallOptions options_;
  };
  Bound with(CallOptions options) const { return {*this, options}; }

  // Done when the actor has been created and has served all calls made before; fails with why it could not
  // be.
  Future<void> ready() const {
    Lane& lane = detail::calling_lane();
    auto state = Ref<detail::FutureState<void>>::adopt(new detail::CallFutureState<void>(lane));
    struct Source final : CallSource {
      void encode(Writer&) override {}
      Invocation* make_local() override { return new detail::Ping; }
    } source;
    CallRequest request;
    request.method = detail::TableOf<T>::ping;
    detail::submit(lane, actor_, source, request, state.get());
    return Future<void>(std::move(state));
  }

  // Ends the actor; calls in flight fail with ActorDied. With restart it is made again if it has restarts
  // left.
  Future<void> kill() const { return kill_as(true); }
  Future<void> restart() const { return kill_as(false); }

  template <class Archive>
  void save(Archive& archive) const {
    archive(id().value);
  }
  template <class Archive>
  void load(Archive& archive) {
    ActorId id;
    archive(id.value);
    actor_ = id ? std::make_shared<detail::ActorRef>(id) : nullptr;
  }

 private:
  template <auto M>
  static constexpr std::uint16_t ordinal =
      static_cast<std::uint16_t>(detail::ordinal_in<M>(typename detail::DescriptionOf<T>::Listed{}));

  template <auto M, class... A>
  static void check() {
    static_assert(is_described<T>,
                  "describe the class: template <> inline constexpr auto troupe::actor<T> = …");
    if constexpr (is_described<T>) {
      static_assert(detail::ordinal_in<M>(typename detail::DescriptionOf<T>::Listed{}) >= 0,
                    "this method is not in the class's list: add it to .methods<…>() of troupe::actor<T>");
      using Traits = detail::MethodTraits<decltype(M)>;
      static_assert(sizeof...(A) == Traits::arity, "wrong number of arguments for this method");
      if constexpr (sizeof...(A) == Traits::arity) {
        static_assert(std::is_constructible_v<typename Traits::Arguments, A&&...> || sizeof...(A) == 0,
                      "an argument cannot be converted to the method's parameter");
      }
    }
  }

  template <auto M, class... A>
  detail::CallResult<M> call_with(const CallOptions& options, A&&... arguments) const {
    check<M, A...>();
    using Source = detail::TypedSource<T, M>;
    using Outcome = detail::Outcome<typename detail::MethodTraits<decltype(M)>::Returned>;
    using Value = typename Outcome::Value;
    typename Source::Arguments values{std::forward<A>(arguments)...};
    if constexpr (detail::Recomputable<Value>::possible && !Outcome::streams) {
      if (options.recompute() > 0) return call_recomputed<M, Value>(options, std::move(values));
    }
    Source source(std::move(values));
    CallRequest request;
    request.method = ordinal<M>;
    request.retries = options.retries();
    if (options.deadline().count() > 0) request.deadline = detail::limit_after(options.deadline());
    Lane& lane = detail::calling_lane();
    if constexpr (Outcome::streams) {
      request.credit = kStreamWindow;
      auto state = Ref<detail::StreamState<Value>>::adopt(new detail::StreamState<Value>(lane));
      detail::submit(lane, actor_, source, request, state.get());
      return Stream<Value>(std::move(state));
    } else {
      auto state = Ref<detail::FutureState<Value>>::adopt(new detail::CallFutureState<Value>(lane));
      detail::submit(lane, actor_, source, request, state.get());
      return Future<Value>(std::move(state));
    }
  }

  // Keeps the arguments, so that the call can be made again when its result is lost.
  template <auto M, class Value, class Arguments>
  Future<Value> call_recomputed(CallOptions options, Arguments arguments) const {
    static_assert(std::is_copy_constructible_v<Arguments>,
                  "the result of this call cannot be recomputed: an argument cannot be copied");
    int times = options.recompute();
    options.recompute(0);
    auto kept = std::make_shared<const Arguments>(std::move(arguments));
    auto call = [handle = *this, options, times, kept](std::chrono::milliseconds limit) {
      CallOptions now = options;
      bool shorter = options.deadline().count() <= 0 || limit < options.deadline();
      if (limit.count() > 0 && shorter) now.deadline(limit);
      // Made again: what took the object may be about to take the actor too.
      if (limit.count() > 0) now.retries(std::max(options.retries(), times));
      return std::apply([&](const auto&... value) { return handle.template call_with<M>(now, value...); },
                        *kept);
    };
    return call(std::chrono::milliseconds(0)).then([times, kept, call](Value made) {
      return detail::Recomputable<Value>::mark(std::move(made), times, *kept, call);
    });
  }

  Future<void> kill_as(bool no_restart) const;

  std::shared_ptr<detail::ActorRef> actor_;
};

namespace detail {
Future<void> kill(ActorId actor, bool no_restart);
}

template <class T>
Future<void> Handle<T>::kill_as(bool no_restart) const {
  return detail::kill(id(), no_restart);
}

}  // namespace troupe
