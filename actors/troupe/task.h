// Task<R>: a coroutine of an actor (or of the driver). It starts when it is awaited, returned by a method, or
// given to start(); co_await on a Future suspends it, and it goes on on the same lane. While a method's Task
// is suspended the actor is busy, unless its class was declared concurrent.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "runtime/call/actor_cell.h"
#include "troupe/future.h"

namespace troupe {

namespace detail {

// Resumes a coroutine on the lane, as the actor and call it was suspended in. Disposes of itself.
class Resume final : public Runnable, public Pooled {
 public:
  explicit Resume(std::coroutine_handle<> handle) : handle_(handle), as_(current()) {}
  void run() override;
  void discard() override { delete this; }
  void forget() { handle_ = nullptr; }  // the coroutine was destroyed

 private:
  std::coroutine_handle<> handle_;
  Current as_;
};

template <class R>
class FutureAwaiter {
 public:
  explicit FutureAwaiter(Ref<FutureState<R>> state) : state_(std::move(state)) {}
  FutureAwaiter(const FutureAwaiter&) = delete;
  ~FutureAwaiter() {
    if (resume_ == nullptr) return;
    resume_->forget();
    if (state_->clear_continuation()) resume_->discard();
  }
  bool await_ready() const { return state_->done(); }
  void await_suspend(std::coroutine_handle<> handle) {
    resume_ = new Resume(handle);
    note_waiting(state_.get());
    state_->set_continuation(resume_);
  }
  R await_resume() {
    if (resume_ != nullptr) {
      resume_ = nullptr;
      note_waiting(nullptr);
    }
    return take_value(*state_);
  }

 private:
  Ref<FutureState<R>> state_;
  Resume* resume_ = nullptr;
};

// Told on the lane when a coroutine has ended or yielded.
struct Hook : Runnable {
  bool queued = false;  // it waits in the lane's queue: its disposal is up to run() or discard()

 protected:
  ~Hook() = default;
};

// What a finished coroutine tells: its awaiter, or a hook.
struct TaskEnd {
  std::coroutine_handle<> awaiter;
  Hook* completion = nullptr;
};

struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> handle) noexcept {
    TaskEnd& end = handle.promise().end;
    if (end.awaiter) return end.awaiter;
    if (end.completion != nullptr) schedule_here(end.completion);
    return std::noop_coroutine();
  }
  void await_resume() const noexcept {}
  static void schedule_here(Hook* hook) noexcept;
};

template <class R>
struct TaskPromiseBase {
  TaskEnd end;
  std::exception_ptr failure;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() { failure = std::current_exception(); }

  template <class U>
  auto await_transform(Future<U>&& future) {
    return FutureAwaiter<U>(future.release());
  }
  template <class U>
  auto await_transform(Future<U>& future) {
    return FutureAwaiter<U>(future.release());
  }
  template <class A>
  decltype(auto) await_transform(A&& awaitable) {
    return std::forward<A>(awaitable);
  }
};

template <class R>
struct TaskPromise : TaskPromiseBase<R> {
  std::optional<R> value;
  auto get_return_object() { return std::coroutine_handle<TaskPromise>::from_promise(*this); }
  template <class V>
  void return_value(V&& v) {
    value.emplace(std::forward<V>(v));
  }
  R take() {
    if (this->failure) std::rethrow_exception(this->failure);
    return std::move(*value);
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase<void> {
  auto get_return_object() { return std::coroutine_handle<TaskPromise>::from_promise(*this); }
  void return_void() {}
  void take() {
    if (failure) std::rethrow_exception(failure);
  }
};

}  // namespace detail

template <class R = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<R>;

  Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // For the runtime: runs until the first suspension; `completion` is scheduled at the end.
  void start_with(detail::Hook* completion) {
    handle_.promise().end.completion = completion;
    handle_.resume();
  }
  R take() { return handle_.promise().take(); }
  bool done() const { return handle_.done(); }

  auto operator co_await() && {
    struct Awaiter {
      std::coroutine_handle<promise_type> handle;
      bool await_ready() const { return handle.done(); }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) {
        handle.promise().end.awaiter = awaiter;
        return handle;
      }
      R await_resume() { return handle.promise().take(); }
    };
    return Awaiter{handle_};
  }
  auto operator co_await() & { return std::move(*this).operator co_await(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <class R>
class StartedTask final : public Hook {
 public:
  StartedTask(Task<R> task, Ref<FutureState<R>> state) : task_(std::move(task)), state_(std::move(state)) {}
  void start() { task_.start_with(this); }
  void run() override {
    try {
      if constexpr (std::is_void_v<R>) {
        task_.take();
        state_->value.emplace();
      } else {
        state_->value.emplace(task_.take());
      }
      state_->finish_value();
    } catch (...) {
      state_->fail(failure_of(std::current_exception()));
    }
    delete this;
  }
  void discard() override { delete this; }

 private:
  Task<R> task_;
  Ref<FutureState<R>> state_;
};

}  // namespace detail

// Starts a coroutine outside of a method, such as in the driver's main.
template <class R>
Future<R> start(Task<R> task) {
  Lane& lane = detail::default_lane();
  auto state = Ref<detail::FutureState<R>>::adopt(new detail::FutureState<R>(lane));
  auto* started = new detail::StartedTask<R>(std::move(task), state);
  detail::run_on(lane, [started] { started->start(); });
  return Future<R>(std::move(state));
}

}  // namespace troupe
