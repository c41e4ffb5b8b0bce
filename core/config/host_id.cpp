#include "core/config/host_id.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace troupe {
namespace {

std::string inode_of(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? std::to_string(info.st_ino) : "0";
}

}  // namespace

std::string host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    boot = name;
  }
  return boot + "-" + inode_of("/proc/self/ns/net") + "-" + inode_of("/proc/self/ns/mnt");
}

}  // namespace troupe
