// Future<R>: the result of a call that may not be there yet. Move-only, with one consumer; any thread.
//
//   get()            waits; returns the value or throws a Failure. A thread of the driver drives its calls
//   meanwhile. get(limit)       the same, but throws DeadlineExceeded after `limit`; the call goes on and
//   get() may be repeated then(f)          f(value) runs on the lane of the call when the value is there;
//   failures pass f by co_await         inside Task, Generator: suspends the coroutine, not the thread
//   cancel()         ends the wait with Cancelled and tells the actor (context().cancelled())
//
// A future that is dropped lets its call go on and ignores the result.
#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/codec/archive.h"
#include "runtime/call/call_state.h"
#include "runtime/lane/task.h"
#include "troupe/errors.h"

namespace troupe {

template <class R>
class Future;

namespace detail {

struct Unit {};

template <class R>
using Stored = std::conditional_t<std::is_void_v<R>, Unit, R>;

template <class R>
class FutureState : public CallState {
 public:
  using CallState::CallState;
  std::optional<Stored<R>> value;

 protected:
  void decode_value(Reader&) override {}  // no reply comes for it
};

// The state of a call, whose reply may come from another process.
template <class R>
class CallFutureState final : public FutureState<R> {
 public:
  using FutureState<R>::FutureState;

 protected:
  void decode_value(Reader& reply) override {
    if constexpr (std::is_void_v<R>) {
      this->value.emplace();
    } else {
      static_assert(std::is_default_constructible_v<R>,
                    "a result type needs a default constructor to be received");
      decode(reply, this->value.emplace());
    }
  }
};

// Implemented in actors/future.cpp.
bool wait(CallState& state, std::int64_t limit_ns);  // limit: steady nanoseconds, 0: none
void cancel(CallState& state);
Lane& default_lane();
// Runs f under the baton of the state's lane: now if this thread holds it, else as a task.
void on_lane(Lane& lane, LaneTask* task);
bool holds(const Lane& lane);
std::int64_t limit_after(std::chrono::nanoseconds time);
// Around a wait of the running actor: lets cycles be found.
void note_waiting(CallState* state);

template <class F>
void run_on(Lane& lane, F f) {
  if (holds(lane))
    f();
  else
    on_lane(lane, new FunctionTask<F>(std::move(f)));
}

template <class R>
void take_error(FutureState<R>& state) {
  if (state.status() == CallState::kFailed) throw_failure(state.error());
}

template <class R>
R take_value(FutureState<R>& state) {
  take_error(state);
  if constexpr (!std::is_void_v<R>) return std::move(*state.value);
}

// Calls f with the value of a state that is done and has one.
template <class R, class F>
decltype(auto) apply_value(FutureState<R>& state, F& f) {
  if constexpr (std::is_void_v<R>)
    return f();
  else
    return f(std::move(*state.value));
}

template <class R, class F>
struct ResultOf {
  using type = std::invoke_result_t<F&, R>;
};
template <class F>
struct ResultOf<void, F> {
  using type = std::invoke_result_t<F&>;
};

template <class R>
struct IsFuture : std::false_type {
  using inner = R;
};
template <class R>
struct IsFuture<Future<R>> : std::true_type {
  using inner = R;
};

Error failure_of(std::exception_ptr exception);

// Copies the outcome of one finished state into another of the same type.
template <class R>
void settle(FutureState<R>& to, FutureState<R>& from) {
  if (to.done()) return;
  if (from.status() == CallState::kFailed) {
    to.fail(from.error());
  } else {
    to.value = std::move(from.value);
    to.finish_value();
  }
}

template <class State, class F>
class Continuation final : public Runnable, public Pooled {
 public:
  Continuation(Ref<State> state, F f) : state_(std::move(state)), f_(std::move(f)) {}
  void run() override {
    Ref<State> state = std::move(state_);
    F f = std::move(f_);
    delete this;
    f(*state);
  }
  void discard() override { delete this; }

 private:
  Ref<State> state_;
  F f_;
};

// Runs f(state) on the state's lane once it is done.
template <class State, class F>
void when_done(const Ref<State>& state, F f) {
  state->set_continuation(new Continuation<State, F>(state, std::move(f)));
}

}  // namespace detail

template <class R>
class [[nodiscard]] Future {
 public:
  using State = detail::FutureState<R>;

  Future() = default;
  explicit Future(Ref<State> state) : state_(std::move(state)) {}
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  bool valid() const { return static_cast<bool>(state_); }
  bool ready() const { return state_->done(); }

  R get() {
    if (!state_->done()) detail::wait(*state_, 0);
    Ref<State> state = std::move(state_);
    state_ = nullptr;
    return detail::take_value(*state);
  }

  R get(std::chrono::nanoseconds limit) {
    if (!wait_for(limit))
      throw DeadlineExceeded(Error(ErrorKind::deadline_exceeded, "get() waited to its limit"));
    return get();
  }

  // True when the result, or a failure, is there.
  bool wait_for(std::chrono::nanoseconds limit) {
    return state_->done() || detail::wait(*state_, detail::limit_after(limit));
  }

  void cancel() { detail::cancel(*state_); }

  // f takes the value (nothing for void) and returns a value, void or a Future, which is waited for.
  template <class F>
  auto then(F f) && {
    using Returned = typename detail::ResultOf<R, F>::type;
    using Inner = typename detail::IsFuture<Returned>::inner;
    auto target = Ref<detail::FutureState<Inner>>::adopt(new detail::FutureState<Inner>(state_->lane()));
    Ref<State> source = std::move(state_);
    detail::when_done(source, [target, f = std::move(f)](State& from) mutable {
      if (from.status() == CallState::kFailed) {
        target->fail(from.error());
        return;
      }
      try {
        if constexpr (detail::IsFuture<Returned>::value) {
          Returned next = detail::apply_value(from, f);
          detail::when_done(next.state(), [target](detail::FutureState<Inner>& done) {
            detail::run_on(target->lane(), [target, done = Ref<detail::FutureState<Inner>>::share(&done)] {
              detail::settle(*target, *done);
            });
          });
        } else if constexpr (std::is_void_v<Inner>) {
          detail::apply_value(from, f);
          target->value.emplace();
          target->finish_value();
        } else {
          target->value.emplace(detail::apply_value(from, f));
          target->finish_value();
        }
      } catch (...) {
        target->fail(detail::failure_of(std::current_exception()));
      }
    });
    return Future<Inner>(std::move(target));
  }

  const Ref<State>& state() const { return state_; }
  Ref<State> release() { return std::move(state_); }

 private:
  Ref<State> state_;
};

// The other side of a future that is not a call: for methods that answer later, and for tests. Copyable; any
// thread. Dropping all copies without an answer fails the future with Cancelled.
template <class R>
class Promise {
 public:
  Promise() : state_(std::make_shared<Holder>()) {}
  Future<R> future() { return Future<R>(state_->state); }

  template <class... V>
  void set_value(V&&... value) {
    auto holder = state_;
    detail::run_on(holder->state->lane(), [holder, v = std::make_tuple(std::forward<V>(value)...)]() mutable {
      if (holder->state->done()) return;
      std::apply([&](auto&&... x) { holder->state->value.emplace(std::move(x)...); }, std::move(v));
      holder->state->finish_value();
    });
  }
  void set_error(Error error) {
    auto holder = state_;
    detail::run_on(holder->state->lane(), [holder, error = std::move(error)] { holder->state->fail(error); });
  }

 private:
  struct Holder {
    Ref<detail::FutureState<R>> state =
        Ref<detail::FutureState<R>>::adopt(new detail::FutureState<R>(detail::default_lane()));
    ~Holder() {
      if (state->done()) return;
      detail::run_on(state->lane(), [s = state] {
        s->fail(Error(ErrorKind::cancelled, "the promise was dropped unanswered"));
      });
    }
  };
  std::shared_ptr<Holder> state_;
};

template <class R>
Future<std::decay_t<R>> make_ready(R&& value) {
  Promise<std::decay_t<R>> promise;
  auto future = promise.future();
  promise.set_value(std::forward<R>(value));
  return future;
}

}  // namespace troupe
