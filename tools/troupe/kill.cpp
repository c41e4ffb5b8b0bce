// troupe kill TARGET
#include <cstdio>

#include "tools/troupe/head_client.h"

namespace troupe::tools {
namespace {

struct Options {
  std::optional<std::string> head;
  std::string target;
  bool no_restart = false;
};

int kill(const Options& options) {
  HeadClient client(options.head);
  auto request = client.admin().killRequest();
  request.setTarget(options.target);
  request.setNoRestart(options.no_restart);
  auto answer = client.wait(request.send());
  std::printf("%s\n", answer.getWhat().cStr());
  return kOk;
}

}  // namespace

Run add_kill(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("target", options->target, "an actor's id or name, job:NUMBER or node:NAME")->required();
  app.add_flag("--no-restart", options->no_restart, "the actor is not to come back");
  add_head_option(app, options->head);
  return [options] { return kill(*options); };
}

}  // namespace troupe::tools
