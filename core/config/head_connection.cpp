#include "core/config/head_connection.h"

#include "core/control/kj_error.h"

namespace troupe {
namespace {

kj::Promise<kj::Own<RpcConnection>> try_from(ControlLoop& loop,
                                             std::shared_ptr<const ClusterLocation> cluster,
                                             std::size_t index) {
  auto attempt = rpc_connect(loop, cluster->addresses[index], cluster->token);
  if (index + 1 == cluster->addresses.size()) return attempt;
  return attempt.catch_(
      [&loop, cluster, index](kj::Exception&& failure) -> kj::Promise<kj::Own<RpcConnection>> {
        if (error_of(failure).kind != ErrorKind::unavailable) return kj::mv(failure);
        return try_from(loop, cluster, index + 1);
      });
}

}  // namespace

kj::Promise<kj::Own<RpcConnection>> connect_to_head(ControlLoop& loop, ClusterLocation cluster) {
  return try_from(loop, std::make_shared<const ClusterLocation>(std::move(cluster)), 0);
}

kj::Promise<kj::Own<RpcConnection>> find_head(ControlLoop& loop, const std::optional<std::string>& head) {
  auto cluster = find_cluster(head);
  if (!cluster) return kj_exception(cluster.error());
  return connect_to_head(loop, std::move(*cluster));
}

}  // namespace troupe
