// troupe::Runtime: joins the cluster at the start of main and leaves it at the end.
//
//   int main(int argc, char** argv) {
//     troupe::Runtime runtime(argc, argv, troupe::classes<Counter>);
//     …
//   }
//
// Make it first: in a worker process of the job, which is this same executable, the constructor hosts actors
// and never returns. The cluster is the one of TROUPE_HEAD, or the current one of this user; `troupe run`
// provides one. Leaving ends the job: its actors, unless detached. Signal handlers are the program's own and
// are left alone.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "troupe/handle.h"

namespace troupe {

class Process;

class RuntimeOptions {
 public:
  // How long a thread that waits for a call polls before it sleeps; 0: never. Default: 50 µs, or
  // TROUPE_POLL_US.
  RuntimeOptions& poll(std::chrono::microseconds value) { return poll_ = value, *this; }
  // The head's address. Default: TROUPE_HEAD, else the current cluster.
  RuntimeOptions& head(std::string address) { return head_ = std::move(address), *this; }

  std::chrono::microseconds poll() const { return poll_; }
  const std::string& head() const { return head_; }

 private:
  std::chrono::microseconds poll_{-1};
  std::string head_;
};

// The classes a program's actors are of; names must differ.
template <class... T>
inline constexpr const ClassTable* class_list[] = {&detail::TableOf<T>::table...};
template <class... T>
inline constexpr std::span<const ClassTable* const> classes{class_list<T...>};

class Runtime {
 public:
  // Throws Unavailable (no cluster), Failure (wrong token, versions differ), AlreadyExists (two classes of
  // one name).
  Runtime(int argc, char** argv, std::span<const ClassTable* const> classes, RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;

  JobId job() const;

 private:
  std::unique_ptr<Process> process_;
};

// Makes an actor and returns its handle at once; calls made meanwhile wait. The arguments are those of one of
// the constructors in the class's description. With a name it waits for the cluster's word and may throw
// AlreadyExists.
template <class T, class... A>
Handle<T> spawn(const ActorOptions& options, A&&... arguments);

// The same for a durable actor.
template <class T, class... A>
Handle<T> spawn(const DurableActorOptions& options, A&&... arguments);

// The live actor of that name; NotFound when there is none, InvalidArgument when it is of another class.
template <class T>
Handle<T> find(const std::string& name);

struct NodeDescription {
  NodeId id;
  std::string name;
  bool alive = false;
  int pid = 0;  // of its agent, on its host
  Resources total, free;
};
std::vector<NodeDescription> nodes();

namespace detail {

ActorId spawn(const ClassTable& table, const ActorOptions& options, const Writer& args);
ActorId find(const ClassTable& table, const std::string& name);

// The constructor to use: the first of the description's that takes these arguments as they are, else by
// implicit conversion, else by an explicit one.
template <class... A, class... C>
constexpr int constructor_for(std::tuple<C...>*) {
  int best = 0, found = -1, at = 0;
  auto consider = [&]<class... P>(Constructor<P...>) {
    int fit = 0;
    if constexpr (sizeof...(P) == sizeof...(A)) {
      if constexpr ((std::is_same_v<std::decay_t<P>, std::decay_t<A>> && ...))
        fit = 3;
      else if constexpr ((std::is_convertible_v<A, std::decay_t<P>> && ...))
        fit = 2;
      else if constexpr ((std::is_constructible_v<std::decay_t<P>, A> && ...))
        fit = 1;
    }
    if (fit > best) {
      best = fit;
      found = at;
    }
    ++at;
  };
  (consider(C{}), ...);
  return found;
}

template <class... P, class... A>
void encode_as(Writer& to, Constructor<P...>, A&&... arguments) {
  std::tuple<std::decay_t<P>...> values{std::forward<A>(arguments)...};
  encode_tuple(to, values);
}

}  // namespace detail

template <class T, class... A>
Handle<T> spawn(const ActorOptions& options, A&&... arguments) {
  static_assert(is_described<T>,
                "describe the class: template <> inline constexpr auto troupe::actor<T> = …");
  using Constructors = typename detail::DescriptionOf<T>::ConstructorList;
  constexpr int which = detail::constructor_for<A&&...>(static_cast<Constructors*>(nullptr));
  static_assert(which >= 0,
                "no constructor in troupe::actor<T> takes these arguments: list it with .constructor<…>()");
  Writer args;
  encode(args, static_cast<std::uint16_t>(which));
  detail::encode_as(args, std::tuple_element_t<which, Constructors>{}, std::forward<A>(arguments)...);
  return Handle<T>(detail::spawn(detail::TableOf<T>::table, options, args));
}

template <class T, class... A>
Handle<T> spawn(const DurableActorOptions& options, A&&... arguments) {
  static_assert(detail::check_durable<T>());
  return spawn<T>(static_cast<const ActorOptions&>(options), std::forward<A>(arguments)...);
}

template <class T>
Handle<T> find(const std::string& name) {
  return Handle<T>(detail::find(detail::TableOf<T>::table, name));
}

}  // namespace troupe
