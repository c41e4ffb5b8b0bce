#include "tests/sim/folder.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/log.h"

namespace troupe::sim {

const std::string& sim_folder() {
  static const struct Folder {
    Folder() {
      char name[] = "/tmp/troupe-sim-XXXXXX";
      path = ::mkdtemp(name);
      log_to("sim", path + "/log");
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  } kept;
  return kept.path;
}

}  // namespace troupe::sim
