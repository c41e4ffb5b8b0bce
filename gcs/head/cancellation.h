// Calls that wait for news may be cancelled when their caller goes. Cap'n Proto before 1.0 is told so by the
// call's context; later versions are told in the schema, which the earlier ones cannot read, so there such
// calls end with their connection. Control thread.
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
