// Calls that wait end when their caller drops them. Cap'n Proto before 1.0 is told so by the call's context,
// later versions by the schema, where those that wait for news are marked `cancellable`. There the others,
// which wait for the store at most, run to their end: the mark would hold from before they begin, and a
// change that was asked for must be begun (rule 9). Control thread.
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
