// troupe version
#include <cstdio>

#include "tools/troupe/command.h"

namespace troupe::tools {

Run add_version(CLI::App&) {
  return [] {
    std::printf("troupe %s\n", kVersion);
    return kOk;
  };
}

}  // namespace troupe::tools
