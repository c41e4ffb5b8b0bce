#include "troupe/errors.h"

#include "core/tensor/tensor_error.h"

namespace troupe {

void throw_failure(const Error& error) {
  switch (error.kind) {
    case ErrorKind::actor_error:
      throw ActorError(error);
    case ErrorKind::actor_died:
      throw ActorDied(error);
    case ErrorKind::unavailable:
      throw Unavailable(error);
    case ErrorKind::deadline_exceeded:
      throw DeadlineExceeded(error);
    case ErrorKind::cancelled:
      throw Cancelled(error);
    case ErrorKind::overloaded:
      throw Overloaded(error);
    case ErrorKind::cycle:
      throw CycleError(error);
    case ErrorKind::infeasible:
      throw Infeasible(error);
    case ErrorKind::not_found:
      throw NotFound(error);
    case ErrorKind::already_exists:
      throw AlreadyExists(error);
    case ErrorKind::invalid_argument:
      throw InvalidArgument(error);
    case ErrorKind::object_lost:
      throw ObjectLost(error);
    case ErrorKind::object_store_full:
      throw ObjectStoreFull(error);
    case ErrorKind::wrong_device:
      throw WrongDevice(error);
    case ErrorKind::device_memory_exceeded:
      throw DeviceMemoryExceeded(error);
    default:
      throw Failure(error);
  }
}

}  // namespace troupe
