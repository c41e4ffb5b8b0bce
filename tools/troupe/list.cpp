// troupe list nodes|actors|jobs|objects
#include <cstdio>

#include "tools/troupe/store_clients.h"
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

std::string object_id(wire::ObjectId::Reader id) {
  constexpr int kCounter = 36;  // bits; runtime/objects/object_id.h
  return std::to_string(id.getNode()) + "." + std::to_string(id.getNumber() >> kCounter) + "." +
         std::to_string(id.getNumber() & ((std::uint64_t{1} << kCounter) - 1));
}

void list_objects(HeadClient& client, const Options& options) {
  std::vector<std::string> missing;
  auto stores = object_stores(client, missing);
  auto json = nlohmann::json::array();
  Table table({"OBJECT", "NODE", "BYTES", "STATE", "HOLDERS", "ON THEIR WAY", "NODES", "READ", "AGE", "PID"});
  std::uint64_t left_out = 0;
  for (auto& store : stores) {
    auto request = store.peer.listRequest();
    request.setLimit(options.limit);
    auto answer = client.wait(request.send());
    left_out += answer.getTotal() - answer.getObjects().size();
    for (auto object : answer.getObjects()) {
      json.push_back({{"object", object_id(object.getId())},
                      {"node", store.name},
                      {"home", object.getId().getNode()},
                      {"bytes", object.getSize()},
                      {"state", object.getState().cStr()},
                      {"holders", object.getHolders()},
                      {"transits", object.getTransits()},
                      {"borrowers", object.getBorrowers().size()},
                      {"read", object.getPinned()},
                      {"age_ms", object.getAgeMs()},
                      {"pid", object.getPid()}});
      table.add({object_id(object.getId()), store.name, std::to_string(object.getSize()),
                 object.getState().cStr(), std::to_string(object.getHolders()),
                 std::to_string(object.getTransits()), std::to_string(object.getBorrowers().size()),
                 object.getPinned() ? "yes" : "-", std::to_string(object.getAgeMs() / 1000) + "s",
                 std::to_string(object.getPid())});
    }
  }
  for (const auto& one : missing) std::fprintf(stderr, "troupe list: no answer from %s\n", one.c_str());
  if (options.json) return print_json(json);
  std::fputs(table.text().c_str(), stdout);
  if (left_out > 0) std::printf("… %llu more; see --limit\n", static_cast<unsigned long long>(left_out));
}

// What is listed is what the head holds to be so. Changes it makes now are not durable yet.
void tell_if_store_is_away(HeadClient& client) {
  auto answer = client.wait(client.admin().statusRequest().send());
  auto cluster = answer.getCluster();
  if (cluster.getStoreAwaySince() == 0) return;
  std::fprintf(stderr, "troupe list: the head's store is away for %s: changes wait for it\n",
               show_age(cluster.getStoreAwaySince()).c_str());
}

int list(const Options& options) {
  HeadClient client(options.head);
  if (options.what != "objects") tell_if_store_is_away(client);
  if (options.what == "nodes")
    list_nodes(client, options);
  else if (options.what == "jobs")
    list_jobs(client, options);
  else if (options.what == "objects")
    list_objects(client, options);
  else
    list_actors(client, options);
  return kOk;
}

}  // namespace

Run add_list(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("what", options->what, "nodes, actors, jobs or objects")
      ->required()
      ->check(CLI::IsMember({"nodes", "actors", "jobs", "objects"}));
  add_head_option(app, options->head);
  app.add_flag("--json", options->json, "print JSON");
  app.add_option("--limit", options->limit, "at most so many actors, or objects of a node; 0: all");
  app.add_option("--job", options->job, "only the actors of this job");
  return [options] { return list(*options); };
}

}  // namespace troupe::tools
