// Calls that wait for news end when their caller drops them. Cap'n Proto before 1.0 is told so by the call's
// context, later versions by the schema: each such call is marked `cancellable` there. Control thread.
#pragma once

#include <capnp/common.h>

namespace troupe::gcs {

template <class Context>
void allow_cancellation([[maybe_unused]] Context& context) {
#if CAPNP_VERSION < 1000000
  context.allowCancellation();
#endif
}

}  // namespace troupe::gcs
