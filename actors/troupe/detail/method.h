// From a member pointer to an Invocation: decoding arguments, running the method whatever it returns (a
// value, void, a Future, a Task, a Generator), encoding its result. And from a description to a ClassTable.
#pragma once

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/call/class_table.h"
#include "runtime/call/invocation.h"
#include "troupe/actor.h"
#include "troupe/durable.h"
#include "troupe/stream.h"

namespace troupe::detail {

template <class M>
struct MethodTraits;

// Whether a method may change its object.
template <class M>
inline constexpr bool writes = true;
template <class R, class C, class... A>
inline constexpr bool writes<R (C::*)(A...) const> = false;
template <class R, class C, class... A>
inline constexpr bool writes<R (C::*)(A...) const noexcept> = false;
template <class R, class C, class... A>
inline constexpr bool writes<R (C::*)(A...) const&> = false;

template <class R, class C, class... A>
struct MethodShape {
  using Returned = R;
  using Class = C;
  using Parameters = std::tuple<A...>;
  using Arguments = std::tuple<std::decay_t<A>...>;
  static constexpr std::size_t arity = sizeof...(A);
  static_assert(
      ((!std::is_lvalue_reference_v<A> || std::is_const_v<std::remove_reference_t<A>>)&&...),
      "a method of an actor cannot take a parameter by non-const reference: the caller lives elsewhere");
  static_assert((!std::is_pointer_v<std::decay_t<A>> && ...), "a method of an actor cannot take a pointer");
};

template <class R, class C, class... A>
struct MethodTraits<R (C::*)(A...)> : MethodShape<R, C, A...> {};
template <class R, class C, class... A>
struct MethodTraits<R (C::*)(A...) const> : MethodShape<R, C, A...> {};
template <class R, class C, class... A>
struct MethodTraits<R (C::*)(A...) noexcept> : MethodShape<R, C, A...> {};
template <class R, class C, class... A>
struct MethodTraits<R (C::*)(A...) const noexcept> : MethodShape<R, C, A...> {};
template <class R, class C, class... A>
struct MethodTraits<R (C::*)(A...)&> : MethodShape<R, C, A...> {};
template <class R, class C, class... A>
struct MethodTraits<R (C::*)(A...) const&> : MethodShape<R, C, A...> {};

// What a caller gets: Future<R> for R, Future<R>, Task<R>; Stream<T> for Generator<T>.
template <class R>
struct Outcome {
  using Value = R;
  static constexpr bool streams = false;
  static constexpr bool at_once = true;  // it is there when the method returns
};
template <class R>
struct Outcome<Future<R>> : Outcome<R> {
  static constexpr bool at_once = false;
};
template <class R>
struct Outcome<Task<R>> : Outcome<R> {
  static constexpr bool at_once = false;
};
template <class T>
struct Outcome<Generator<T>> {
  using Value = T;
  static constexpr bool streams = true;
  static constexpr bool at_once = false;
};

// The type of handle.call<M>(…). It depends on the method alone, not on the class's description, so that a
// class may call its own kind inside its body, before it is described.
template <auto M>
using CallResult =
    std::conditional_t<Outcome<typename MethodTraits<decltype(M)>::Returned>::streams,
                       Stream<typename Outcome<typename MethodTraits<decltype(M)>::Returned>::Value>,
                       Future<typename Outcome<typename MethodTraits<decltype(M)>::Returned>::Value>>;

template <class V>
Stored<V> decode_one(Reader& from) {
  static_assert(std::is_default_constructible_v<V>,
                "an argument type needs a default constructor to be received");
  V value{};
  decode(from, value);
  return value;
}

template <class Tuple>
Tuple decode_tuple(Reader& from) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Tuple{decode_one<std::tuple_element_t<I, Tuple>>(from)...};  // braces: in order
  }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>{});
}

template <class Tuple>
void encode_tuple(Writer& to, const Tuple& values) {
  std::apply([&](const auto&... value) { (encode(to, value), ...); }, values);
}

// Arguments and the call; what differs by return type is in the subclasses.
template <class T, auto M>
class MethodInvocation : public Invocation {
 public:
  using Traits = MethodTraits<decltype(M)>;
  using Arguments = typename Traits::Arguments;
  using Returned = typename Traits::Returned;

  explicit MethodInvocation(Arguments arguments) : arguments_(std::move(arguments)) {}

 protected:
  Returned invoke(void* object) {
    // The method may be a base class's.
    auto* self = static_cast<typename Traits::Class*>(static_cast<T*>(object));
    return [&]<std::size_t... I>(std::index_sequence<I...>)->Returned {
      return (self->*M)(
          static_cast<std::tuple_element_t<I, typename Traits::Parameters>&&>(std::get<I>(arguments_))...);
    }
    (std::make_index_sequence<Traits::arity>{});
  }

  // They outlive a coroutine method, whose parameters may refer to them.
  Arguments arguments_;
};

// A method that answers when it returns.
template <class T, auto M, class R>
class TypedInvocation final : public MethodInvocation<T, M> {
 public:
  using MethodInvocation<T, M>::MethodInvocation;
  void start(void* object) override {
    try {
      if constexpr (std::is_void_v<R>) {
        this->invoke(object);
        result_.emplace();
      } else {
        result_.emplace(this->invoke(object));
      }
    } catch (...) {
      this->failed(current_error());
      return;
    }
    this->finished();
  }
  void abandon() override {}
  void encode_result(Writer& to) override {
    if constexpr (!std::is_void_v<R>) encode(to, *result_);
  }
  void deliver(CallState& state) override { static_cast<FutureState<R>&>(state).value = std::move(result_); }

 private:
  std::optional<Stored<R>> result_;
};

// A method that returns a Future.
template <class T, auto M, class R>
class TypedInvocation<T, M, Future<R>> final : public MethodInvocation<T, M> {
 public:
  using MethodInvocation<T, M>::MethodInvocation;
  void start(void* object) override {
    try {
      state_ = this->invoke(object).release();
    } catch (...) {
      this->failed(current_error());
      return;
    }
    waiter_ = new Waiter(this);
    state_->set_continuation(waiter_);
  }
  void abandon() override {
    if (waiter_ == nullptr) return;
    waiter_->owner = nullptr;
    if (state_->clear_continuation()) delete waiter_;
    waiter_ = nullptr;
  }
  void encode_result(Writer& to) override {
    if constexpr (!std::is_void_v<R>) encode(to, *state_->value);
  }
  void deliver(CallState& state) override {
    static_cast<FutureState<R>&>(state).value = std::move(state_->value);
  }

 private:
  struct Waiter final : Runnable, Pooled {
    explicit Waiter(TypedInvocation* o) : owner(o) {}
    void run() override {
      TypedInvocation* to = owner;
      delete this;
      if (to == nullptr) return;
      to->waiter_ = nullptr;
      if (to->state_->status() == CallState::kFailed) {
        Error error = to->state_->error();
        to->failed(std::move(error));
      } else {
        to->finished();
      }
    }
    void discard() override { delete this; }
    TypedInvocation* owner;
  };
  Ref<FutureState<R>> state_;
  Waiter* waiter_ = nullptr;
};

// Scheduled by a coroutine that belongs to an invocation which may be gone by then.
template <class Owner>
class CoroutineHook final : public Hook, public Pooled {
 public:
  explicit CoroutineHook(Owner* owner) : owner_(owner) {}
  void run() override {
    queued = false;
    if (owner_ != nullptr)
      owner_->on_hook();
    else
      delete this;
  }
  void discard() override {
    queued = false;
    if (owner_ == nullptr) delete this;
  }
  // The owner lets go: deletes this now, or when the queue is through with it.
  void drop() {
    owner_ = nullptr;
    if (!queued) delete this;
  }

 private:
  Owner* owner_;
};

// A method that is a coroutine.
template <class T, auto M, class R>
class TypedInvocation<T, M, Task<R>> final : public MethodInvocation<T, M> {
 public:
  using MethodInvocation<T, M>::MethodInvocation;
  ~TypedInvocation() override { abandon(); }
  void start(void* object) override {
    try {
      task_.emplace(this->invoke(object));
    } catch (...) {
      this->failed(current_error());
      return;
    }
    hook_ = new CoroutineHook<TypedInvocation>(this);
    task_->start_with(hook_);
  }
  void abandon() override {
    if (hook_ == nullptr) return;
    std::exchange(hook_, nullptr)->drop();
    task_.reset();
  }
  void on_hook() {
    std::exchange(hook_, nullptr)->drop();
    try {
      if constexpr (std::is_void_v<R>) {
        task_->take();
        result_.emplace();
      } else {
        result_.emplace(task_->take());
      }
    } catch (...) {
      task_.reset();
      this->failed(current_error());
      return;
    }
    task_.reset();
    this->finished();
  }
  void encode_result(Writer& to) override {
    if constexpr (!std::is_void_v<R>) encode(to, *result_);
  }
  void deliver(CallState& state) override { static_cast<FutureState<R>&>(state).value = std::move(result_); }

 private:
  std::optional<Task<R>> task_;
  std::optional<Stored<R>> result_;
  CoroutineHook<TypedInvocation>* hook_ = nullptr;
};

// A method that yields a stream.
template <class T, auto M, class V>
class TypedInvocation<T, M, Generator<V>> final : public MethodInvocation<T, M> {
 public:
  using MethodInvocation<T, M>::MethodInvocation;
  ~TypedInvocation() override { abandon(); }
  bool pausable() const override { return true; }
  void start(void* object) override {
    try {
      generator_.emplace(this->invoke(object));
    } catch (...) {
      this->failed(current_error());
      return;
    }
    hook_ = new CoroutineHook<TypedInvocation>(this);
    advance();
  }
  void abandon() override {
    if (hook_ == nullptr) return;
    std::exchange(hook_, nullptr)->drop();
    generator_.reset();
  }
  void grant(std::uint32_t more) override {
    this->credit += more;
    if (!waiting_ || this->credit == 0) return;
    waiting_ = false;
    this->cell->resumed(this);
    FinalAwaiter::schedule_here(hook_);
  }
  // After a yield, at the end, and when credit has come.
  void on_hook() {
    if (this->cancelled) {
      finish([this] { this->failed(Error(ErrorKind::cancelled, "the stream's reader is gone")); });
      return;
    }
    if (V* value = generator_->yielded(); value != nullptr && !sent_) {
      static thread_local Writer scratch;
      scratch.clear();
      scratch.set_sharing(this->shares && this->peer != nullptr);
      try {
        encode(scratch, *value);
      } catch (...) {
        Error error = current_error();
        error.message = "an item of the stream could not be encoded: " + error.message;
        finish([&] { this->failed(std::move(error)); });
        return;
      }
      --this->credit;
      sent_ = true;
      this->send_item(scratch);
      scratch.trim();
    }
    if (generator_->finished()) {
      try {
        generator_->rethrow();
      } catch (...) {
        Error error = current_error();
        finish([&] { this->failed(std::move(error)); });
        return;
      }
      finish([this] { this->finished(); });
      return;
    }
    advance();
  }
  void encode_result(Writer&) override {}
  void deliver(CallState&) override {}

 private:
  void advance() {
    if (this->credit == 0) {
      waiting_ = true;
      this->cell->paused(this);
      return;
    }
    sent_ = false;
    Current before = std::exchange(current(), Current{this->cell, this});
    ActorCell* cell = this->cell;
    cell->enter();
    generator_->resume(hook_);
    current() = before;
    cell->leave();
  }
  template <class F>
  void finish(F f) {
    std::exchange(hook_, nullptr)->drop();
    generator_.reset();
    f();
  }

  std::optional<Generator<V>> generator_;
  CoroutineHook<TypedInvocation>* hook_ = nullptr;
  bool waiting_ = false, sent_ = true;
};

template <class T, auto M>
using InvocationOf = TypedInvocation<T, M, typename MethodTraits<decltype(M)>::Returned>;

template <class T, auto M>
Invocation* decode_invocation(Reader& args) {
  using Arguments = typename MethodTraits<decltype(M)>::Arguments;
  return new InvocationOf<T, M>(decode_tuple<Arguments>(args));
}

// ---- class tables ----

template <class T>
using DescriptionOf = std::remove_const_t<decltype(actor<T>)>;

// Compared as types: the addresses of inline functions are no constants for every compiler setting.
template <auto M>
struct MethodTag;
template <auto A, auto B>
inline constexpr bool same_method = std::is_same_v<MethodTag<A>, MethodTag<B>>;

// The ordinal of M in the class's list, or -1.
template <auto M, auto... Listed>
constexpr int ordinal_in(MethodList<Listed...>) {
  int found = -1, at = 0;
  ((found = found < 0 && same_method<M, Listed> ? at : found, ++at), ...);
  return found;
}

template <auto... Listed>
constexpr bool listed_once(MethodList<Listed...> list) {
  int at = 0;
  bool once = true;
  ((once = once && ordinal_in<Listed>(list) == at++), ...);
  return once;
}

// A built-in method, the last in each table: answers in its turn. Handle::ready() calls it.
class Ping final : public Invocation {
 public:
  static Invocation* decode(Reader&) { return new Ping; }
  void start(void*) override { finished(); }
  void abandon() override {}
  void encode_result(Writer&) override {}
  void deliver(CallState& state) override { static_cast<FutureState<void>&>(state).value.emplace(); }
};

template <class T>
void* construct_nth(Reader& args) {
  std::uint16_t wanted = 0;
  decode(args, wanted);
  void* made = nullptr;
  std::uint16_t at = 0;
  auto consider = [&]<class... A>(Constructor<A...>) {
    if (at++ != wanted) return;
    auto values = decode_tuple<std::tuple<std::decay_t<A>...>>(args);
    made = std::apply(
        [](auto&... value) -> void* {
          if constexpr (std::is_constructible_v<T, A...>)
            return new T(static_cast<A&&>(value)...);
          else
            return new T{static_cast<A&&>(value)...};
        },
        values);
  };
  [&]<class... C>(std::tuple<C...>*) {
    (consider(C{}), ...);
  }(static_cast<typename DescriptionOf<T>::ConstructorList*>(nullptr));
  if (made == nullptr) throw DecodeError("no such constructor");
  return made;
}

template <auto... M>
constexpr bool all_at_once(MethodList<M...>) {
  return (Outcome<typename MethodTraits<decltype(M)>::Returned>::at_once && ...);
}

// What a class must be to be spawned durable.
template <class T>
constexpr bool check_durable() {
  static_assert(
      Savable<T>,
      "a durable actor's class needs void save(troupe::Writer&) const and void load(troupe::Reader&)");
  static_assert(all_at_once(typename DescriptionOf<T>::Listed{}),
                "a method of a durable actor returns its result at once: no Future, Task or Generator");
  static_assert(actor<T>.concurrency == 1, "a durable actor cannot be concurrent");
  return true;
}

template <class T>
struct TableOf {
  static_assert(
      is_described<T>,
      "describe the class: template <> inline constexpr auto troupe::actor<T> = troupe::describe<T>(…)…");

  template <auto... M>
  static constexpr std::array<MethodEntry, sizeof...(M) + 1> entries_of(MethodList<M...> list) {
    static_assert(listed_once(decltype(list){}), "a method is listed twice");
    return {MethodEntry{&decode_invocation<T, M>, writes<decltype(M)>}..., MethodEntry{&Ping::decode, false}};
  }
  static constexpr ClassTable make_table() {
    ClassTable made{actor<T>.name, &construct_nth<T>, [](void* object) { delete static_cast<T*>(object); },
                    entries, actor<T>.concurrency};
    if constexpr (Savable<T>) {
      made.save = [](const void* object, Writer& to) { static_cast<const T*>(object)->save(to); };
      made.load = [](void* object, Reader& from) { static_cast<T*>(object)->load(from); };
    }
    return made;
  }
  static constexpr auto entries = entries_of(typename DescriptionOf<T>::Listed{});
  static constexpr ClassTable table = make_table();
  static constexpr std::uint16_t ping = static_cast<std::uint16_t>(entries.size() - 1);
};

}  // namespace troupe::detail
