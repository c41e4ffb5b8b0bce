// What a failed call throws. All derive from troupe::Failure, which carries the whole Error: kind, message,
// the exception's C++ type and backtrace in the process that threw, actor, incarnation, node and nested
// causes.
#pragma once

#include "core/base/throws_error.h"

namespace troupe {

using Failure = ThrowsError;

// The method or constructor threw. error().type is the exception's type there, error().message its what().
struct ActorError : Failure {
  using Failure::Failure;
};
// The actor's incarnation ended before it answered; error().cause tells how (exit status, signal, who killed
// it).
struct ActorDied : Failure {
  using Failure::Failure;
};
// The cluster or the actor's process could not be reached in time.
struct Unavailable : Failure {
  using Failure::Failure;
};
struct DeadlineExceeded : Failure {
  using Failure::Failure;
};
struct Cancelled : Failure {
  using Failure::Failure;
};
// A bounded queue is full: wait for some of the calls before making more.
struct Overloaded : Failure {
  using Failure::Failure;
};
// The call's callee waits, directly or not, for its caller.
struct CycleError : Failure {
  using Failure::Failure;
};
// No node of the cluster could ever hold the actor.
struct Infeasible : Failure {
  using Failure::Failure;
};
struct NotFound : Failure {
  using Failure::Failure;
};
struct AlreadyExists : Failure {
  using Failure::Failure;
};
struct InvalidArgument : Failure {
  using Failure::Failure;
};
// No copy of the object is left: it was freed, or the nodes that had it are gone.
struct ObjectLost : Failure {
  using Failure::Failure;
};
// Neither the node's object memory nor its disk has room; the message says what takes it up.
struct ObjectStoreFull : Failure {
  using Failure::Failure;
};
// A tensor of a device that the receiving process does not see, or that this process has not: WrongDevice
// (core/tensor/tensor_error.h).
// More memory of a GPU than the actor's share, or than the GPU has free.
struct DeviceMemoryExceeded : Failure {
  using Failure::Failure;
};

// Throws the exception of the error's kind; other kinds throw Failure itself.
[[noreturn]] void throw_failure(const Error& error);

}  // namespace troupe
