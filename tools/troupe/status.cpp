// troupe status
#include <cstdio>

#include "tools/troupe/head_client.h"
#include "tools/troupe/table.h"
#include "tools/troupe/views.h"

namespace troupe::tools {
namespace {

struct Options {
  std::optional<std::string> head;
  bool json = false;
};

int status(const Options& options) {
  HeadClient client(options.head);
  auto answer = client.wait(client.admin().statusRequest().send());
  auto cluster = answer.getCluster();
  if (options.json) {
    print_json(to_json(cluster));
    return kOk;
  }
  unsigned alive = 0;
  Table nodes({"NODE", "STATE", "ACTORS", "FREE/TOTAL", "UP", "NOTE"});
  for (auto node : cluster.getNodes()) {
    alive += node.getAlive();
    if (!node.getAlive() && cluster.getNodes().size() > 50) continue;
    nodes.add({node.getName().cStr(), node.getAlive() ? "alive" : "gone", std::to_string(node.getActors()),
               show_free(node.getFree(), node.getTotal()),
               node.getAlive() ? show_age(node.getJoinedUnix()) : "-", node.getReason().cStr()});
  }
  std::printf("head %s, process %d, up %s, store %s\n", cluster.getAddress().cStr(), cluster.getHeadPid(),
              show_age(cluster.getStartedUnix()).c_str(), cluster.getStoreState().cStr());
  std::printf(
      "nodes %u alive, jobs %u running, actors %u alive, %u starting, %u pending, %u restarting, %u dead\n",
      alive, cluster.getJobsRunning(), cluster.getAlive(), cluster.getStarting(), cluster.getPending(),
      cluster.getRestarting(), cluster.getDead());
  if (cluster.getNodes().size() > 0)
    std::printf("\n%s", nodes.text().c_str());
  else
    std::printf("no nodes: add one with `troupe node`\n");
  if (cluster.getWarnings().size() > 0) std::printf("\n");
  for (auto warning : cluster.getWarnings()) std::printf("warning: %s\n", warning.cStr());
  return kOk;
}

}  // namespace

Run add_status(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_head_option(app, options->head);
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return status(*options); };
}

}  // namespace troupe::tools
