#include "runtime/process/object_store.h"

#include "core/config/host_id.h"
#include "core/control/kj_error.h"
#include "runtime/objects/object_client.h"

namespace troupe {

void use_worker_store(ControlLoop& loop, const Token& token, const std::string& socket_dir) {
  ObjectClient::Outside outside;
  outside.loop = &loop;
  outside.token = token;
  outside.find_store = [path = socket_dir + "/objects"]() -> kj::Promise<std::string> { return path; };
  ObjectClient::get().configure(std::move(outside));
}

void use_driver_store(ControlLoop& loop, const Token& token, Participant& participant) {
  ObjectClient::Outside outside;
  outside.loop = &loop;
  outside.token = token;
  outside.find_store = [&participant]() -> kj::Promise<std::string> {
    KJ_IF_MAYBE (session, participant.plane().session()) {
      return session->nodesRequest().send().then([](capnp::Response<wire::Session::NodesResults> answer) {
        std::string here = host_id();
        for (auto node : answer.getNodes()) {
          if (!node.getAlive() || node.getHostId() != here || node.getObjectsPath().size() == 0) continue;
          return std::string(node.getObjectsPath().cStr());
        }
        kj::throwFatalException(
            kj_exception(Error(ErrorKind::unavailable,
                               "no node of the cluster with an object store is on this machine; start one "
                               "with `troupe node`")));
      });
    }
    return kj_exception(Error(ErrorKind::unavailable, "the head is away"));
  };
  ObjectClient::get().configure(std::move(outside));
}

void leave_store() { ObjectClient::get().end(); }

}  // namespace troupe
