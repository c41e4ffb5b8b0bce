// troupe memory: what the nodes' object stores use.
#include <cstdio>

#include "tools/troupe/store_clients.h"
#include "tools/troupe/table.h"
#include "tools/troupe/views.h"

namespace troupe::tools {
namespace {

struct Options {
  std::optional<std::string> head;
  bool json = false;
};

std::string bytes(std::uint64_t n) {
  char text[32];
  if (n < 10 << 20)
    std::snprintf(text, sizeof text, "%.1fKiB", static_cast<double>(n) / 1024);
  else if (n < std::uint64_t{10} << 30)
    std::snprintf(text, sizeof text, "%.1fMiB", static_cast<double>(n) / (1 << 20));
  else
    std::snprintf(text, sizeof text, "%.1fGiB", static_cast<double>(n) / (1 << 30));
  return n == 0 ? "0" : text;
}

int memory(const Options& options) {
  HeadClient head(options.head);
  std::vector<std::string> missing;
  auto stores = object_stores(head, missing);
  auto json = nlohmann::json::array();
  Table table({"NODE", "NAME", "USED/MEMORY", "READ", "RESERVED", "OBJECTS", "SPILLED/DISK", "SPILLS",
               "RESTORES", "PROCESSES", "WAITING"});
  for (auto& store : stores) {
    auto answer = head.wait(store.peer.memoryRequest().send());
    auto one = answer.getMemory();
    json.push_back({{"node", one.getNode()},
                    {"name", one.getName().cStr()},
                    {"capacity", one.getCapacity()},
                    {"used", one.getUsed()},
                    {"pinned", one.getPinned()},
                    {"reserved", one.getBlank()},
                    {"touched", one.getTouched()},
                    {"objects", one.getObjects()},
                    {"spilled", one.getSpilled()},
                    {"spilled_objects", one.getSpilledObjects()},
                    {"disk_limit", one.getDiskLimit()},
                    {"spills", one.getSpills()},
                    {"restores", one.getRestores()},
                    {"processes", one.getProcesses()},
                    {"waiting", one.getWaiting()}});
    table.add({std::to_string(one.getNode()), one.getName().cStr(),
               bytes(one.getUsed()) + "/" + bytes(one.getCapacity()), bytes(one.getPinned()),
               bytes(one.getBlank()), std::to_string(one.getObjects()),
               bytes(one.getSpilled()) + "/" + bytes(one.getDiskLimit()), std::to_string(one.getSpills()),
               std::to_string(one.getRestores()), std::to_string(one.getProcesses()),
               std::to_string(one.getWaiting())});
  }
  if (options.json)
    print_json(json);
  else
    std::fputs(table.text().c_str(), stdout);
  for (const auto& one : missing) std::fprintf(stderr, "troupe memory: no answer from %s\n", one.c_str());
  return missing.empty() ? kOk : kFailed;
}

}  // namespace

Run add_memory(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_head_option(app, options->head);
  app.add_flag("--json", options->json, "print JSON; sizes in bytes");
  return [options] { return memory(*options); };
}

}  // namespace troupe::tools
