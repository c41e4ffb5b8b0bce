// troupe down
#include <cstdio>

#include "tools/troupe/head_client.h"

namespace troupe::tools {

Run add_down(CLI::App& app) {
  auto head = std::make_shared<std::optional<std::string>>();
  add_head_option(app, *head);
  return [head] {
    HeadClient client(*head);
    try {
      client.wait(client.admin().shutdownRequest().send().ignoreResult().then([] { return true; }));
    } catch (const Failed&) {
      if (!client.wait_for_end(0 * kj::SECONDS)) throw;
    }
    if (!client.wait_for_end(20 * kj::SECONDS))
      throw Failed("the head was told to end but still runs after 20 s");
    std::printf("the cluster has ended\n");
    return kOk;
  };
}

}  // namespace troupe::tools
