// troupe list nodes|actors|jobs
#include <cstdio>

#include "tools/troupe/head_client.h"
#include "tools/troupe/table.h"
#include "tools/troupe/views.h"

namespace troupe::tools {
namespace {

struct Options {
  std::optional<std::string> head;
  std::string what;
  bool json = false;
  std::uint32_t limit = 100;
  std::uint64_t job = 0;
};

void list_nodes(HeadClient& client, const Options& options) {
  auto answer = client.wait(client.admin().nodesRequest().send());
  if (options.json) return print_json(list_to_json(answer.getNodes()));
  Table table({"NODE", "NAME", "STATE", "PID", "ACTORS", "FREE/TOTAL", "UP", "NOTE"});
  for (auto node : answer.getNodes()) {
    table.add({std::to_string(node.getNode()), node.getName().cStr(), node.getAlive() ? "alive" : "gone",
               std::to_string(node.getPid()), std::to_string(node.getActors()),
               show_free(node.getFree(), node.getTotal()),
               node.getAlive() ? show_age(node.getJoinedUnix()) : "-", node.getReason().cStr()});
  }
  std::fputs(table.text().c_str(), stdout);
}

void list_jobs(HeadClient& client, const Options& options) {
  auto answer = client.wait(client.admin().jobsRequest().send());
  if (options.json) return print_json(list_to_json(answer.getJobs()));
  Table table({"JOB", "NAME", "STATE", "DRIVER", "ACTORS", "AGE", "NOTE"});
  for (auto job : answer.getJobs()) {
    table.add({std::to_string(job.getJob()), job.getName().cStr(), job.getPhase().cStr(),
               std::to_string(job.getPid()), std::to_string(job.getActors()), show_age(job.getStartedUnix()),
               job.getReason().cStr()});
  }
  std::fputs(table.text().c_str(), stdout);
}

void list_actors(HeadClient& client, const Options& options) {
  auto request = client.admin().actorsRequest();
  request.setLimit(options.limit);
  request.setJob(options.job);
  auto answer = client.wait(request.send());
  if (options.json) return print_json(list_to_json(answer.getActors()));
  Table table({"ACTOR", "NAME", "CLASS", "STATE", "JOB", "NODE", "PID", "RESTARTS", "RESOURCES", "NOTE"});
  for (auto actor : answer.getActors()) {
    auto state = actor.getState();
    table.add({actor_id_text(actor), actor.getName().cStr(), state.getClassName().cStr(),
               phase_name(state.getPhase()), std::to_string(actor.getJob()), actor.getNode().cStr(),
               actor.getPid() != 0 ? std::to_string(actor.getPid()) : "-",
               std::to_string(actor.getRestarts()), show_amounts(actor.getResources()), actor_note(actor)});
  }
  std::fputs(table.text().c_str(), stdout);
  if (answer.getTotal() > answer.getActors().size()) {
    std::printf("… %u more; see --limit\n", answer.getTotal() - answer.getActors().size());
  }
}

int list(const Options& options) {
  HeadClient client(options.head);
  if (options.what == "nodes")
    list_nodes(client, options);
  else if (options.what == "jobs")
    list_jobs(client, options);
  else
    list_actors(client, options);
  return kOk;
}

}  // namespace

Run add_list(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("what", options->what, "nodes, actors or jobs")
      ->required()
      ->check(CLI::IsMember({"nodes", "actors", "jobs"}));
  add_head_option(app, options->head);
  app.add_flag("--json", options->json, "print JSON");
  app.add_option("--limit", options->limit, "at most so many actors; 0: all");
  app.add_option("--job", options->job, "only the actors of this job");
  return [options] { return list(*options); };
}

}  // namespace troupe::tools
