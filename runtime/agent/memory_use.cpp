#include "runtime/agent/memory_use.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace troupe {
namespace {

constexpr std::size_t kMostChildren = 256;

std::uint64_t pages_of(const std::string& folder) {
  std::uint64_t size = 0, resident = 0, shared = 0;
  std::ifstream in(folder + "/statm");
  in >> size >> resident >> shared;
  return in && resident > shared ? resident - shared : 0;
}

void add_children(const std::string& folder, std::vector<pid_t>& to) {
  std::error_code bad;
  for (std::filesystem::directory_iterator at(folder + "/task", bad), end; !bad && at != end;
       at.increment(bad)) {
    std::ifstream in(at->path().string() + "/children");
    for (pid_t child = 0; to.size() < kMostChildren && in >> child;) to.push_back(child);
  }
}

// The number after `key` in a file of such lines; 0 where there is none.
std::uint64_t number_after(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string word; in >> word;) {
    std::uint64_t number = 0;
    if (word == key && in >> number) return number;
  }
  return 0;
}

std::uint64_t number_in(const char* path) {
  std::uint64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

}  // namespace

std::uint64_t private_memory(pid_t process) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t pages = 0;
  std::vector<pid_t> tree{process};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    std::string folder = "/proc/" + std::to_string(tree[i]);
    pages += pages_of(folder);
    add_children(folder, tree);
  }
  return pages * page;
}

MemoryReading::Machine machine_memory() {
  MemoryReading::Machine out;
  out.total = number_after("/proc/meminfo", "MemTotal:") << 10;
  out.available = number_after("/proc/meminfo", "MemAvailable:") << 10;
  std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max");  // "max" reads as 0
  if (limit > 0 && limit < out.total) {
    std::uint64_t used = number_in("/sys/fs/cgroup/memory.current");
    std::uint64_t cache = number_after("/sys/fs/cgroup/memory.stat", "inactive_file");
    used -= std::min(used, cache);  // is given back when it is needed
    out.total = limit;
    out.available = std::min(out.available, limit - std::min(limit, used));
  }
  return out;
}

}  // namespace troupe
