#include "tools/troupe/head_client.h"

namespace troupe::tools {

HeadClient::HeadClient(const std::optional<std::string>& head) {
  auto found = find_cluster(head);
  if (!found) throw Failed(found.error());
  token_ = found->token;
  try {
    connection_ = connect_to_head(loop_, *found).wait(loop_.scope());
  } catch (const kj::Exception& failure) {
    Error error = error_of(failure);
    if (error.kind == ErrorKind::unavailable) {
      error.message = "no head answers at " + found->text() + " (from " + found->source +
                      "): " + error.message + "; start one with `troupe head`";
    }
    throw Failed(error);
  }
  admin_ = connection_->bootstrap().castAs<wire::Head>().adminRequest().send().getAdmin();
}

kj::Own<RpcConnection> HeadClient::connect(const Address& address) {
  return wait(rpc_connect(loop_, address, *token_));
}

bool HeadClient::wait_for_end(kj::Duration patience) {
  return connection_->on_disconnect()
      .then([] { return true; }, [](kj::Exception&&) { return true; })
      .exclusiveJoin(loop_.timer().afterDelay(patience).then([] { return false; }))
      .wait(loop_.scope());
}

void add_head_option(CLI::App& app, std::optional<std::string>& head) {
  app.add_option("--head", head, "address of the head; else $TROUPE_HEAD or the current cluster");
}

}  // namespace troupe::tools
