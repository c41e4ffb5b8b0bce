#include "tests/sim/folder.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/log.h"

namespace troupe::sim {

const std::string& sim_folder() {
  static const struct Folder {
    Folder() {
      std::error_code bad;
      bool memory = std::filesystem::is_directory("/dev/shm", bad);
      std::string name = memory ? "/dev/shm/troupe-sim-XXXXXX" : "/tmp/troupe-sim-XXXXXX";
      path = ::mkdtemp(name.data());
      log_to("sim", path + "/log");
      log_level(Level::error);
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
