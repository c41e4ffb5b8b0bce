#include "runtime/process/wire_types.h"

#include "core/control/kj_error.h"

namespace troupe {

void write_place(wire::Endpoint::Builder to, const Place& place) {
  to.setProcess(place.process.value);
  to.setNode(place.node.value);
  to.setHostId(place.host_id.c_str());
  to.setUnixPath(place.unix_path.c_str());
  to.setTcpHost(place.tcp_host.c_str());
  to.setTcpPort(place.tcp_port);
  to.setLane(place.lane);
  to.setPid(place.pid);
}

Place read_place(wire::Endpoint::Reader from) {
  Place out;
  out.process = {from.getProcess()};
  out.lane = from.getLane();
  out.node = {from.getNode()};
  out.host_id = from.getHostId().cStr();
  out.unix_path = from.getUnixPath().cStr();
  out.tcp_host = from.getTcpHost().cStr();
  out.tcp_port = from.getTcpPort();
  out.pid = from.getPid();
  return out;
}

ActorNews read_news(wire::ActorState::Reader from) {
  ActorNews out;
  out.actor = {from.getActor()};
  out.incarnation = from.getIncarnation();
  out.phase = static_cast<Phase>(from.getPhase());
  out.infeasible = from.getInfeasible();
  out.durable = from.getDurable();
  if (from.hasEndpoint()) out.place = std::make_shared<const Place>(read_place(from.getEndpoint()));
  if (from.hasFailure()) out.failure = std::make_shared<const Error>(read_failure(from.getFailure()));
  out.class_name = from.getClassName().cStr();
  return out;
}

Resources read_resources(capnp::List<wire::Amount>::Reader from) {
  Resources out;
  for (auto amount : from) out.set_units(amount.getName().cStr(), amount.getUnits());
  return out;
}

void write_durability(wire::Durability::Builder to, const Durability& from) {
  to.setPlace(static_cast<wire::JournalPlace>(from.place));
  to.setPath(from.path.c_str());
  to.setKey(from.key);
  to.setSnapshotCalls(from.snapshot_calls);
  to.setSnapshotMs(from.snapshot_ms);
  to.setSnapshotBytes(from.snapshot_bytes);
  to.setJournalLimit(from.journal_limit);
}

Durability read_durability(wire::Durability::Reader from) {
  Durability out;
  out.place = static_cast<Durability::Place>(from.getPlace());
  out.path = from.getPath().cStr();
  out.key = from.getKey();
  out.snapshot_calls = from.getSnapshotCalls();
  out.snapshot_ms = from.getSnapshotMs();
  out.snapshot_bytes = from.getSnapshotBytes();
  out.journal_limit = from.getJournalLimit();
  return out;
}

void write_spec(wire::ActorSpec::Builder to, const SpawnRequest& request) {
  to.setActor(request.actor.value);
  to.setClassName(request.class_name.c_str());
  to.setArgs(kj::arrayPtr(reinterpret_cast<const kj::byte*>(request.args.data()), request.args.size()));
  to.setOwner(request.owner.value);
  auto options = to.initOptions();
  options.setName(request.name.c_str());
  options.setDetached(request.detached);
  options.setGetOrCreate(request.get_or_create);
  options.setIsolation(request.light ? wire::Isolation::LIGHT : wire::Isolation::PROCESS);
  options.setNode(request.node.c_str());
  options.setMaxRestarts(request.max_restarts);
  if (request.durability) write_durability(options.initDurability(), *request.durability);
  options.setRestartWindow(request.restart_window);
  auto amounts = options.initResources(static_cast<unsigned>(request.resources.all().size()));
  unsigned i = 0;
  for (const auto& [name, units] : request.resources.all()) {
    amounts[i].setName(name.c_str());
    amounts[i++].setUnits(units);
  }
}

}  // namespace troupe
