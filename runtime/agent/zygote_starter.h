// Workers forked from a zygote, or executed by a launcher (launcher.h): sockets and pipes made for each.
#pragma once

#include "core/control/loop.h"
#include "runtime/agent/starter.h"

namespace troupe {

// The factory and what it makes use `loop`.
Starter::Factory zygotes(ControlLoop& loop);

}  // namespace troupe
