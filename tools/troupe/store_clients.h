// Connections of a command to the object stores of the cluster's nodes.
//
// Owner: the command. Thread: main. A node that does not answer is named in `missing`, and left out.
#pragma once

#include <string>
#include <vector>

#include "core/protocol/objects.capnp.h"
#include "tools/troupe/head_client.h"

namespace troupe::tools {

struct StoreClient {
  std::string name;
  kj::Own<RpcConnection> connection;
  wire::ObjectPeer::Client peer;
};

std::vector<StoreClient> object_stores(HeadClient& head, std::vector<std::string>& missing);

}  // namespace troupe::tools
