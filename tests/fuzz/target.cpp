#include "tests/fuzz/target.h"

#include <cstdio>
#include <cstdlib>

namespace troupe::fuzz {

void require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: broken rule: %s\n", rule);
  std::abort();
}

}  // namespace troupe::fuzz

#ifdef TROUPE_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  troupe::fuzz::run({data, size});
  return 0;
}
#endif
