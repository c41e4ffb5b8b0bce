// How a plain class is made known as an actor: one description beside the class, no macro, nothing in the
// class.
//
//   template <>
//   inline constexpr auto troupe::actor<Counter> =
//       troupe::describe<Counter>("Counter").constructor<int>().methods<&Counter::add, &Counter::value>();
//
// The name stands on the wire and in listings and must be unique in the program. Constructors are given by
// their parameter types; without any the class is default-constructed. Overloads are named with
// troupe::overload. The classes a program uses are handed to troupe::Runtime: troupe::classes<Counter, …>.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

namespace troupe {

template <auto... M>
struct MethodList {};

template <class... A>
struct Constructor {};

template <class T, class Constructors = std::tuple<>, class Methods = MethodList<>>
struct Description {
  using Type = T;
  using ConstructorList =
      std::conditional_t<std::is_same_v<Constructors, std::tuple<>>, std::tuple<Constructor<>>, Constructors>;
  using Listed = Methods;

  const char* name;
  int concurrency = 1;

  template <class... A>
  constexpr auto constructor() const {
    static_assert(
        std::is_constructible_v<T, A...> || requires { T{std::declval<A>()...}; },
        "the class has no constructor with these parameter types");
    using More =
        decltype(std::tuple_cat(std::declval<Constructors>(), std::declval<std::tuple<Constructor<A...>>>()));
    return Description<T, More, Methods>{name, concurrency};
  }
  template <auto... M>
  constexpr auto methods() const {
    static_assert((std::is_member_function_pointer_v<decltype(M)> && ...), "list methods as &Class::method");
    return Description<T, Constructors, MethodList<M...>>{name, concurrency};
  }
  // Up to n calls in progress at a time: coroutine methods interleave where they co_await. They never run at
  // once.
  constexpr auto concurrent(int n) const { return Description<T, Constructors, Methods>{name, n}; }
};

template <class T>
constexpr Description<T> describe(const char* name) {
  return {name};
}

struct NotDescribed {};

template <class T>
inline constexpr auto actor = NotDescribed{};

template <class T>
inline constexpr bool is_described = !std::is_same_v<std::remove_const_t<decltype(actor<T>)>, NotDescribed>;

// Picks one of several overloads: overload<int(int)>(&Counter::add), overload<int() const>(&Counter::value).
template <class Signature, class T>
constexpr auto overload(Signature T::*method) {
  return method;
}

}  // namespace troupe
