#include "core/base/error.h"

#include <cerrno>
#include <cstring>

namespace troupe {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::internal:
      return "internal error";
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::not_found:
      return "not found";
    case ErrorKind::already_exists:
      return "already exists";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::actor_died:
      return "actor died";
    case ErrorKind::actor_error:
      return "actor error";
    case ErrorKind::deadline_exceeded:
      return "deadline exceeded";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::overloaded:
      return "overloaded";
    case ErrorKind::unauthenticated:
      return "not authenticated";
    case ErrorKind::infeasible:
      return "infeasible";
    case ErrorKind::mismatch:
      return "mismatch";
    case ErrorKind::cycle:
      return "cycle of calls";
    case ErrorKind::resource_exhausted:
      return "resource exhausted";
    case ErrorKind::object_lost:
      return "object lost";
    case ErrorKind::object_store_full:
      return "object store full";
    case ErrorKind::wrong_device:
      return "wrong device";
    case ErrorKind::device_memory_exceeded:
      return "device memory exceeded";
  }
  return "unknown error";
}

std::string Error::describe() const {
  std::string text = to_string(kind);
  text += ": ";
  if (!type.empty()) text += type + ": ";
  text += message;
  for (const Error* inner = cause.get(); inner != nullptr; inner = inner->cause.get()) {
    text += "\n  because of ";
    text += to_string(inner->kind);
    text += ": ";
    if (!inner->type.empty()) text += inner->type + ": ";
    text += inner->message;
  }
  return text;
}

Error system_error(int number, const std::string& what) {
  ErrorKind kind = ErrorKind::unavailable;
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
    case ENOBUFS:
      kind = ErrorKind::resource_exhausted;
      break;
    case EADDRINUSE:
    case EEXIST:
      kind = ErrorKind::already_exists;
      break;
    case ENOENT:
      kind = ErrorKind::not_found;
      break;
    case EINVAL:
    case EACCES:
    case EPERM:
      kind = ErrorKind::invalid_argument;
      break;
    default:
      break;
  }
  return Error(kind, what + ": " + std::strerror(number));
}

}  // namespace troupe
