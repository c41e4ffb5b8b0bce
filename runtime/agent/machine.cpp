#include "runtime/agent/machine.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace troupe {
namespace {

std::vector<std::string> entries(const std::string& visible) {
  std::vector<std::string> out;
  std::istringstream in(visible);
  for (std::string entry; std::getline(in, entry, ',');) {
    if (!entry.empty()) out.push_back(entry);
  }
  return out;
}

double cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1u, std::thread::hardware_concurrency());
}

double memory() {
  double bytes = 0;
  std::ifstream in("/proc/meminfo");
  for (std::string key; in >> key;) {
    double kib = 0;
    if (key == "MemTotal:" && in >> kib) bytes = kib * 1024;
    if (bytes > 0) break;
  }
  double limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

std::size_t gpus() {
  std::size_t count = 0;
  std::error_code bad;
  for (std::filesystem::directory_iterator at("/dev", bad), end; !bad && at != end; at.increment(bad)) {
    std::string name = at->path().filename().string();
    if (name.rfind("nvidia", 0) != 0 || name.size() == 6) continue;
    count += std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return std::isdigit(c); });
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr ? std::min(count, entries(visible).size()) : count;
}

}  // namespace

Resources detect_resources() {
  Resources out;
  (void)out.set("cpu", cpus());
  (void)out.set("memory", memory());
  (void)out.set("gpu", static_cast<double>(gpus()));
  return out;
}

std::string devices_of(const std::vector<unsigned>& slots, const char* visible) {
  auto names = entries(visible != nullptr ? visible : "");
  std::string out;
  for (unsigned slot : slots) {
    if (!out.empty()) out += ',';
    out += slot < names.size() ? names[slot] : std::to_string(slot);
  }
  return out;
}

}  // namespace troupe
