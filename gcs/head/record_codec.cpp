#include "gcs/head/record_codec.h"

#include <capnp/message.h>
#include <capnp/serialize-packed.h>
#include <kj/io.h>

#include <charconv>

#include "core/control/kj_error.h"
#include "core/protocol/store.capnp.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {
namespace {

template <class Record, class Fill>
std::string packed(Fill&& fill) {
  capnp::word scratch[128] = {};
  capnp::MallocMessageBuilder message(kj::arrayPtr(scratch, 128));
  fill(message.initRoot<Record>());
  kj::VectorOutputStream out(512);
  capnp::writePackedMessage(out, message);
  auto bytes = out.getArray();
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

std::string encode_node(const NodeRecord& from) {
  return packed<wire::NodeRecord>([&](wire::NodeRecord::Builder to) {
    write(to.initInfo(), from.info);
    to.setAlive(from.phase != NodePhase::dead);
    to.setJoinedUnix(from.joined / 1000);
    to.setReason(text(from.reason));
  });
}

std::string encode_job(const JobRecord& from) {
  return packed<wire::JobRecord>([&](wire::JobRecord::Builder to) {
    write(to.initInfo(), from.info);
    to.setEnded(from.ended);
    to.setStartedUnix(from.started_at / 1000);
    to.setEndedUnix(from.ended_at / 1000);
    to.setReason(text(from.reason));
    to.setProcess(from.driver.value);
  });
}

std::string encode_actor(const ActorRecord& from) {
  return packed<wire::ActorRecord>([&](wire::ActorRecord::Builder to) {
    write(to.initSpec(), *from.spec);
    to.setJob(from.job.value);
    to.setIncarnation(from.incarnation);
    to.setPhase(wire_phase(from.phase));
    to.setNode(from.node.value);
    to.setProcess(from.process.value);
    if (!from.gpus.empty()) {
      auto gpus = to.initGpus(static_cast<unsigned>(from.gpus.size()));
      for (unsigned i = 0; i < gpus.size(); ++i) gpus.set(i, from.gpus[i]);
    }
    to.setRestarts(from.restarts);
    to.setServed(from.served);
    if (!from.home.empty()) to.setHome(text(from.home));
    if (from.failure) write_failure(to.initFailure(), *from.failure);
  });
}

void require(bool sound) {
  if (!sound)
    kj::throwFatalException(kj_exception(Error(ErrorKind::internal, "the record contradicts itself")));
}

StoredNode read_node(std::uint64_t id, wire::NodeRecord::Reader from) {
  return {{id}, read(from.getInfo()), from.getAlive(), from.getJoinedUnix() * 1000, text(from.getReason())};
}

StoredJob read_job(std::uint64_t id, wire::JobRecord::Reader from) {
  StoredJob job{read(from.getInfo()),         {from.getProcess()},        from.getEnded(),
                from.getStartedUnix() * 1000, from.getEndedUnix() * 1000, text(from.getReason())};
  require(job.info.job.value == id && job.driver);
  return job;
}

StoredActor read_actor(std::uint64_t id, wire::ActorRecord::Reader from) {
  StoredActor actor;
  actor.spec = read(from.getSpec());
  actor.job = {from.getJob()};
  actor.incarnation = from.getIncarnation();
  actor.phase = static_cast<Phase>(from.getPhase());
  actor.node = {from.getNode()};
  actor.process = {from.getProcess()};
  for (auto gpu : from.getGpus()) actor.gpus.push_back(gpu);
  actor.restarts = from.getRestarts();
  actor.served = from.getServed();
  actor.home = text(from.getHome());
  if (from.hasFailure()) actor.failure = std::make_shared<Error>(read_failure(from.getFailure()));
  require(actor.spec->actor.value == id && actor.phase <= Phase::dead &&
          bool(actor.node) == bool(actor.process));
  require(bool(check_request(actor.spec->resources)));
  return actor;
}

bool number(const std::string& from, std::uint64_t& to) {
  auto [end, bad] = std::from_chars(from.data(), from.data() + from.size(), to);
  return bad == std::errc{} && end == from.data() + from.size();
}

void quarantine(StoreTable table, const Entry& entry, Batch& repairs) {
  repairs.push_back({StoreTable::quarantine, std::string(to_string(table)) + "/" + entry.key, entry.value});
  repairs.push_back({table, entry.key, std::nullopt});
}

template <class Record, class Read, class Out>
void read_all(StoreTable table, const Tables& tables, Read&& read_one, Out& out, Batch& repairs) {
  for (const Entry& entry : tables[static_cast<std::size_t>(table)]) {
    std::uint64_t id = 0;
    auto bad = kj::runCatchingExceptions([&] {
      require(number(entry.key, id) && id != 0);
      kj::ArrayPtr<const kj::byte> bytes(reinterpret_cast<const kj::byte*>(entry.value.data()),
                                         entry.value.size());
      kj::ArrayInputStream in(bytes);
      capnp::PackedMessageReader message(in);
      out.push_back(read_one(id, message.getRoot<Record>()));
    });
    if (bad != nullptr) quarantine(table, entry, repairs);
  }
}

}  // namespace

Write encode(const ControlStore& core, Table table, std::uint64_t id) {
  Write write{static_cast<StoreTable>(table), std::to_string(id), std::nullopt};
  switch (table) {
    case Table::nodes:
      if (const NodeRecord* node = core.node({id})) write.value = encode_node(*node);
      break;
    case Table::jobs:
      if (const JobRecord* job = core.job({id})) write.value = encode_job(*job);
      break;
    case Table::actors:
      if (const ActorRecord* actor = core.actor({id})) write.value = encode_actor(*actor);
      break;
    case Table::counters:
      write.value = std::to_string(core.counter(static_cast<Counter>(id)));
      break;
  }
  return write;
}

bool journal_in_store(const ActorRecord& actor) {
  return actor.spec->durability && actor.spec->durability->place == Durability::Place::store;
}

Batch encode_all(const ControlStore& core) {
  Batch all;
  for (const auto& [id, node] : core.nodes()) all.push_back(encode(core, Table::nodes, id.value));
  for (const auto& [id, job] : core.jobs()) all.push_back(encode(core, Table::jobs, id.value));
  for (const auto& [id, actor] : core.actors()) {
    all.push_back(encode(core, Table::actors, id.value));
    if (!journal_in_store(actor)) continue;
    std::string journal = std::to_string(id.value) + "/";
    if (actor.phase == Phase::dead)
      all.push_back({StoreTable::journals, journal, std::nullopt});
    else
      all.push_back({StoreTable::journals, journal + kIncompleteJournal, "1"});
  }
  for (std::uint64_t id = 0; id < kCounters; ++id) all.push_back(encode(core, Table::counters, id));
  return all;
}

Snapshot decode(const Tables& tables, Batch& repairs) {
  Snapshot all;
  read_all<wire::NodeRecord>(StoreTable::nodes, tables, read_node, all.nodes, repairs);
  read_all<wire::JobRecord>(StoreTable::jobs, tables, read_job, all.jobs, repairs);
  read_all<wire::ActorRecord>(StoreTable::actors, tables, read_actor, all.actors, repairs);
  for (const Entry& entry : tables[static_cast<std::size_t>(StoreTable::counters)]) {
    std::uint64_t counter = 0, value = 0;
    if (number(entry.key, counter) && counter < kCounters && number(entry.value, value)) {
      all.counters[counter] = value;
    } else {
      quarantine(StoreTable::counters, entry, repairs);
      all.margin = 1'000'000;
    }
  }
  return all;
}

}  // namespace troupe::gcs
