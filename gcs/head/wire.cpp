#include "gcs/head/wire.h"

#include "core/control/kj_error.h"

namespace troupe::gcs {
namespace {

std::vector<std::string> texts(capnp::List<capnp::Text>::Reader from) {
  std::vector<std::string> all;
  all.reserve(from.size());
  for (auto one : from) all.push_back(text(one));
  return all;
}

template <class Init>
void write_texts(Init&& init, const std::vector<std::string>& from) {
  auto list = init(static_cast<unsigned>(from.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, text(from[i]));
}

static_assert(static_cast<int>(wire::ActorPhase::PENDING) == static_cast<int>(Phase::pending));
static_assert(static_cast<int>(wire::ActorPhase::DEAD) == static_cast<int>(Phase::dead));

}  // namespace

Resources read(capnp::List<wire::Amount>::Reader from) {
  Resources all;
  for (auto amount : from) all.set_units(text(amount.getName()), amount.getUnits());
  return all;
}

NodeInfo read(wire::NodeInfo::Reader from) {
  return {text(from.getName()),    text(from.getHostId()),    from.getPid(),
          text(from.getAddress()), read(from.getResources()), text(from.getObjectsPath()),
          from.getObjectsPort()};
}

JobInfo read(wire::JobInfo::Reader from) {
  JobInfo info;
  info.job = {from.getJob()};
  info.name = text(from.getName());
  info.executable = text(from.getExecutable());
  info.fingerprint = from.getFingerprint();
  info.arguments = texts(from.getArguments());
  info.environment = texts(from.getEnvironment());
  info.directory = text(from.getDirectory());
  info.host_id = text(from.getHostId());
  info.pid = from.getPid();
  return info;
}

namespace {

Durability read(wire::Durability::Reader from) {
  return {static_cast<Durability::Place>(from.getPlace()),
          text(from.getPath()),
          from.getKey(),
          from.getSnapshotCalls(),
          from.getSnapshotMs(),
          from.getSnapshotBytes(),
          from.getJournalLimit()};
}

void write(wire::Durability::Builder to, const Durability& from) {
  to.setPlace(static_cast<wire::JournalPlace>(from.place));
  if (!from.path.empty()) to.setPath(text(from.path));
  to.setKey(from.key);
  to.setSnapshotCalls(from.snapshot_calls);
  to.setSnapshotMs(from.snapshot_ms);
  to.setSnapshotBytes(from.snapshot_bytes);
  to.setJournalLimit(from.journal_limit);
}

}  // namespace

SpecPtr read(wire::ActorSpec::Reader from) {
  auto spec = std::make_shared<ActorSpec>();
  auto args = from.getArgs();
  auto options = from.getOptions();
  spec->actor = {from.getActor()};
  spec->class_name = text(from.getClassName());
  spec->args.assign(reinterpret_cast<const char*>(args.begin()), args.size());
  spec->owner = {from.getOwner()};
  spec->name = text(options.getName());
  spec->detached = options.getDetached();
  spec->get_or_create = options.getGetOrCreate();
  spec->isolation = options.getIsolation() == wire::Isolation::LIGHT ? Isolation::light : Isolation::process;
  spec->resources = read(options.getResources());
  spec->node = text(options.getNode());
  spec->max_restarts = options.getMaxRestarts();
  if (options.hasDurability()) spec->durability = read(options.getDurability());
  spec->restart_window = options.getRestartWindow();
  return spec;
}

Endpoint read(wire::Endpoint::Reader from) {
  return {{from.getProcess()},     {from.getNode()},  text(from.getHostId()), text(from.getUnixPath()),
          text(from.getTcpHost()), from.getTcpPort(), from.getLane(),         from.getPid()};
}

void write(wire::NodeInfo::Builder to, const NodeInfo& from) {
  to.setName(text(from.name));
  to.setHostId(text(from.host_id));
  to.setPid(from.pid);
  to.setAddress(text(from.address));
  write_amounts([&](unsigned n) { return to.initResources(n); }, from.resources);
  if (!from.objects_path.empty()) to.setObjectsPath(text(from.objects_path));
  to.setObjectsPort(from.objects_port);
}

void write(wire::JobInfo::Builder to, const JobInfo& from) {
  to.setJob(from.job.value);
  to.setName(text(from.name));
  to.setExecutable(text(from.executable));
  to.setFingerprint(from.fingerprint);
  write_texts([&](unsigned n) { return to.initArguments(n); }, from.arguments);
  write_texts([&](unsigned n) { return to.initEnvironment(n); }, from.environment);
  to.setDirectory(text(from.directory));
  to.setHostId(text(from.host_id));
  to.setPid(from.pid);
}

void write(wire::ActorSpec::Builder to, const ActorSpec& from) {
  to.setActor(from.actor.value);
  to.setClassName(text(from.class_name));
  to.setArgs(capnp::Data::Reader(reinterpret_cast<const capnp::byte*>(from.args.data()), from.args.size()));
  to.setOwner(from.owner.value);
  auto options = to.initOptions();
  if (!from.name.empty()) options.setName(text(from.name));
  options.setDetached(from.detached);
  options.setGetOrCreate(from.get_or_create);
  options.setIsolation(wire_isolation(from.isolation));
  if (!from.resources.empty()) {
    write_amounts([&](unsigned n) { return options.initResources(n); }, from.resources);
  }
  if (!from.node.empty()) options.setNode(text(from.node));
  options.setMaxRestarts(from.max_restarts);
  if (from.durability) write(options.initDurability(), *from.durability);
  options.setRestartWindow(from.restart_window);
}

void write(wire::Endpoint::Builder to, const Endpoint& from) {
  to.setProcess(from.process.value);
  to.setNode(from.node.value);
  to.setHostId(text(from.host_id));
  to.setUnixPath(text(from.unix_path));
  to.setTcpHost(text(from.tcp_host));
  to.setTcpPort(from.tcp_port);
  to.setLane(from.lane);
  to.setPid(from.pid);
}

void write(wire::ActorState::Builder to, const ActorState& from) {
  to.setActor(from.actor.value);
  to.setIncarnation(from.incarnation);
  to.setPhase(wire_phase(from.phase));
  if (from.endpoint) write(to.initEndpoint(), *from.endpoint);
  if (from.failure) write_failure(to.initFailure(), *from.failure);
  if (from.spec) to.setClassName(text(from.spec->class_name));
  to.setInfeasible(from.infeasible);
  to.setDurable(from.spec && from.spec->durability);
}

}  // namespace troupe::gcs
