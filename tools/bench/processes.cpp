#include "tools/bench/processes.h"

#include <dirent.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace troupe::bench {
namespace {

// Of /proc/PID/stat: the name, and what follows it.
struct Stat {
  std::string name, rest;
};

Stat stat_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  auto open = line.find('('), close = line.rfind(')');
  if (close == line.npos) return {};
  return {line.substr(open + 1, close - open - 1), line.substr(close + 2)};
}

}  // namespace

std::set<int> cluster_processes(const std::string& name) {
  std::multimap<int, int> children;
  std::map<int, std::string> names;
  DIR* proc = ::opendir("/proc");
  while (dirent* entry = ::readdir(proc)) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    int pid = std::atoi(entry->d_name);
    Stat stat = stat_of(pid);
    if (stat.rest.empty()) continue;
    std::istringstream rest(stat.rest);
    char state;
    int parent;
    rest >> state >> parent;
    children.emplace(parent, pid);
    names[pid] = stat.name;
  }
  ::closedir(proc);
  std::set<int> found;
  std::vector<int> open{::getppid()};
  while (!open.empty()) {
    int pid = open.back();
    open.pop_back();
    if (!found.insert(pid).second) continue;
    auto [first, last] = children.equal_range(pid);
    for (auto at = first; at != last; ++at) open.push_back(at->second);
  }
  if (!name.empty()) std::erase_if(found, [&](int pid) { return names[pid] != name; });
  return found;
}

double pss_bytes(const std::set<int>& processes) {
  double total = 0;
  for (int pid : processes) {
    std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string line; std::getline(rollup, line);) {
      if (line.rfind("Pss:", 0) == 0) total += std::atof(line.c_str() + 4) * 1024;
    }
  }
  return total;
}

double cpu_seconds() {
  double ticks = 0;
  for (int pid : cluster_processes()) {
    std::istringstream rest(stat_of(pid).rest);
    std::string skip;
    for (int i = 0; i < 11; ++i) rest >> skip;
    double user = 0, system = 0;
    rest >> user >> system;
    ticks += user + system;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace troupe::bench
