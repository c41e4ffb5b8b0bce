#include "core/config/cluster_file.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>

#include "core/config/home.h"
#include "core/config/host_id.h"

namespace troupe {
namespace {

std::string path_in(const std::string& home) { return home + "/cluster"; }

}  // namespace

bool ClusterFile::head_may_run() const {
  if (host_id != troupe::host_id()) return true;
  if (::kill(head_pid, 0) != 0 && errno != EPERM) return false;
  // One that has died and was not reaped yet (state Z, after the name in parentheses) answers signals too.
  std::ifstream stat("/proc/" + std::to_string(head_pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  auto name_end = line.rfind(')');
  return name_end == line.npos || line.compare(name_end, 3, ") Z") != 0;
}

Result<void> write_cluster_file(const std::string& home, const ClusterFile& file) {
  return replace_file(path_in(home), "address " + file.address + "\npid " + std::to_string(file.head_pid) +
                                         "\nhost " + file.host_id + "\nstate " + file.state + "\n");
}

Result<ClusterFile> read_cluster_file(const std::string& home) {
  std::string path = path_in(home);
  std::ifstream in(path);
  if (!in) return Error(ErrorKind::not_found, "there is no cluster file " + path);
  ClusterFile file;
  for (std::string line; std::getline(in, line);) {
    auto blank = line.find(' ');
    if (blank == line.npos) continue;
    std::string key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "address") file.address = value;
    if (key == "host") file.host_id = value;
    if (key == "state") file.state = value;
    if (key == "pid") std::from_chars(value.data(), value.data() + value.size(), file.head_pid);
  }
  if (file.address.empty() || file.head_pid <= 0) {
    return Error(ErrorKind::invalid_argument, "the cluster file " + path + " is damaged: remove it");
  }
  return file;
}

void remove_cluster_file(const std::string& home, pid_t head_pid) {
  auto file = read_cluster_file(home);
  if (file && file->head_pid == head_pid) ::unlink(path_in(home).c_str());
}

}  // namespace troupe
