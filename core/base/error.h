// One error value for the whole house; it crosses processes as wire::Failure (core/protocol/common.capnp).
// Inside the house functions return Result<T>; the public API (actors/troupe) throws exceptions made from
// these.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/base/ids.h"

namespace troupe {

// Numbers are on the wire: append only.
enum class ErrorKind : std::uint16_t {
  internal = 0,          // a defect of Troupe
  invalid_argument = 1,  // the caller's input is wrong; the message says how to mend it
  not_found = 2,         // no such actor, name, node, job
  already_exists = 3,    // a name or port is taken
  unavailable = 4,       // could not be reached in time; may work later
  actor_died = 5,        // the actor's incarnation ended before it answered
  actor_error = 6,       // the method or constructor threw
  deadline_exceeded = 7,
  cancelled = 8,
  overloaded = 9,               // a bounded queue is full
  unauthenticated = 10,         // wrong or missing cluster token
  infeasible = 11,              // no node of the cluster could ever hold it
  mismatch = 12,                // executables or protocol versions differ
  cycle = 13,                   // a cycle of blocking calls
  resource_exhausted = 14,      // disk, memory, processes, file descriptors
  object_lost = 15,             // no copy of the object is left, and none can be made again
  object_store_full = 16,       // neither memory nor disk has room for it
  wrong_device = 17,            // a tensor of a device that is not there, or not usable for what was asked
  device_memory_exceeded = 18,  // beyond the actor's share of a GPU, or what the GPU has free
};
inline constexpr ErrorKind kLastErrorKind = ErrorKind::device_memory_exceeded;

const char* to_string(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::string type;                    // C++ type name of a user's exception
  std::vector<std::string> backtrace;  // of the process that threw
  ActorId actor;
  std::uint32_t incarnation = 0;
  NodeId node;
  std::shared_ptr<const Error> cause;

  Error() = default;
  Error(ErrorKind k, std::string m) : kind(k), message(std::move(m)) {}

  Error& because(Error inner) {
    cause = std::make_shared<const Error>(std::move(inner));
    return *this;
  }
  // "kind: message", then the causes, one a line.
  std::string describe() const;
};

// A value or an Error. Result<void> holds nothing or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }
  Error& error() { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}
  explicit operator bool() const { return !error_; }
  const Error& error() const { return *error_; }
  Error& error() { return *error_; }

 private:
  std::unique_ptr<Error> error_;
};

// "what: strerror(number)" with a kind that fits the number (ENOSPC, EMFILE, EAGAIN … are
// resource_exhausted).
Error system_error(int number, const std::string& what);

}  // namespace troupe
