// troupe logs TARGET
#include <cstdio>

#include "tools/troupe/head_client.h"

namespace troupe::tools {
namespace {

struct Options {
  std::optional<std::string> head;
  std::string target;
  std::uint32_t lines = 100;
};

int logs(const Options& options) {
  HeadClient client(options.head);
  auto request = client.admin().logsRequest();
  request.setTarget(options.target);
  request.setLines(options.lines);
  auto answer = client.wait(request.send());
  std::fputs(answer.getText().cStr(), stdout);
  return kOk;
}

}  // namespace

Run add_logs(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("target", options->target, "an actor's id or name, or job:NUMBER")->required();
  app.add_option("-n,--lines", options->lines, "the last so many lines of each node")
      ->check(CLI::PositiveNumber);
  add_head_option(app, options->head);
  return [options] { return logs(*options); };
}

}  // namespace troupe::tools
