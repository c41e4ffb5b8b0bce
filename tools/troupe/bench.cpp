// troupe bench CASE…: runs the benchmark program, which lies beside this one, on a local cluster of its own.
// Cases between hosts run between network namespaces.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tools/troupe/command.h"

namespace troupe::tools {
namespace {

[[noreturn]] void become(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  throw Failed("cannot run " + arguments[0] + ": " + std::strerror(errno));
}

}  // namespace

Run add_bench(CLI::App& app) {
  struct Options {
    std::vector<std::string> cases;
    bool json = false, list = false;
    int runs = 0;
  };
  auto options = std::make_shared<Options>();
  app.add_option("CASE", options->cases, "cases to measure; --list shows them");
  app.add_flag("--json", options->json, "one JSON object a case");
  app.add_flag("--list", options->list, "show the cases");
  app.add_option("--runs", options->runs, "how often each is measured; the median counts")
      ->check(CLI::PositiveNumber);
  return [options]() -> int {
    namespace fs = std::filesystem;
    fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    std::string troupe = folder / "troupe", bench = folder / "troupe-bench", hosts = folder / "hosts";
    if (!fs::exists(bench))
      throw Failed("the benchmark is not built: cmake --build build/release --target troupe-bench");
    if (options->list) become({bench, "--list"});
    if (options->cases.empty()) throw UsageError("name a case; --list shows them");
    // How many far hosts a case needs, and the rate of each host's link.
    static const std::map<std::string, std::string> remote = {{"actor_remote_sync", "1"},
                                                              {"actor_remote_async", "1"},
                                                              {"object_pull", "1"},
                                                              {"object_broadcast", "8@1gbit"},
                                                              {"object_broadcast_unlimited", "8"}};
    std::set<std::string> places;  // "": this host alone
    for (auto& name : options->cases) {
      auto at = remote.find(name);
      places.insert(at == remote.end() ? "" : at->second);
    }
    if (places.size() > 1) throw UsageError("cases on other hosts, or other links, are measured apart");
    const std::string& far = *places.begin();
    // Polling is set for a whole cluster: a case that needs it otherwise comes alone.
    std::vector<std::string> line;
    if (!far.empty())
      line = {hosts, far, troupe, bench, bench};
    else
      line = {troupe, "run", "--local", bench};
    for (auto& name : options->cases) line.push_back(name);
    if (options->json) line.push_back("--json");
    if (options->runs > 0) line.insert(line.end(), {"--runs", std::to_string(options->runs)});
    become(std::move(line));
  };
}

}  // namespace troupe::tools
