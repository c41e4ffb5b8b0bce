#include "tools/troupe/store_clients.h"

namespace troupe::tools {

std::vector<StoreClient> object_stores(HeadClient& head, std::vector<std::string>& missing) {
  std::vector<StoreClient> out;
  auto answer = head.wait(head.admin().nodesRequest().send());
  for (auto node : answer.getNodes()) {
    if (!node.getAlive() || node.getObjectsPort() == 0) continue;
    Address address;
    address.host = node.getAddress().cStr();
    address.port = node.getObjectsPort();
    try {
      auto connection = head.connect(address);
      auto peer = connection->bootstrap().castAs<wire::ObjectPeer>();
      out.push_back({node.getName().cStr(), kj::mv(connection), kj::mv(peer)});
    } catch (const Failed& failure) {
      missing.push_back(std::string(node.getName().cStr()) + ": " + failure.what());
    }
  }
  return out;
}

}  // namespace troupe::tools
