// Translates between troupe::Error, KJ exceptions and wire::Failure. A troupe::Error thrown through an RPC
// keeps its kind: it travels in the exception's text behind a mark, since Cap'n Proto carries only four
// types.
#pragma once

#include <kj/exception.h>

#include "core/base/error.h"
#include "core/protocol/common.capnp.h"

namespace troupe {

kj::Exception kj_exception(const Error& error);
Error error_of(const kj::Exception& exception);
// Whether the way to the peer broke, as opposed to an answer of the peer that something is unavailable.
bool connection_lost(const kj::Exception& exception);

void write_failure(wire::Failure::Builder to, const Error& error);
Error read_failure(wire::Failure::Reader from);

}  // namespace troupe
