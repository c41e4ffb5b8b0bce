// troupe::context(): what an actor knows of itself and of the call it serves. Inside methods, constructors,
// coroutines and continuations of an actor; elsewhere it throws InvalidArgument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/handle.h"

namespace troupe {

class Context {
 public:
  ActorId id() const;
  template <class T>
  Handle<T> self() const {
    return Handle<T>(id());
  }
  std::uint32_t incarnation() const;  // 1 for the first, one more after each restart
  JobId job() const;
  NodeId node() const;
  const std::string& node_name() const;
  const std::string& name() const;                 // the actor's, empty: none
  const std::vector<std::uint16_t>& gpus() const;  // slots on the node; empty: none
  // The caller of the running method has cancelled, its deadline has passed, or the actor is being ended.
  bool cancelled() const;
  // Durable actors: the running call ran before, and runs again to bring the state back. What it does outside
  // the object, such as calling others, has been done.
  bool replaying() const;
  // Durable actors: a snapshot when the running call has ended. InvalidArgument in others.
  void snapshot() const;
  std::uint64_t trace() const;  // id that the running call carries on to calls it makes
};

const Context& context();

}  // namespace troupe
