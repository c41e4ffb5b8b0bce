// What an owner is told of an actor that is dead for good and was not told to end.
#pragma once

#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace troupe {

struct ActorFailure {
  ActorId actor;
  std::string class_name;
  Error error;  // how it ended, with its causes
};
using FailureHandler = std::function<void(const ActorFailure&)>;

}  // namespace troupe
