#include "tests/sim/judge.h"

#include <capnp/serialize-packed.h>
#include <kj/io.h>

#include <algorithm>

#include "core/protocol/store.capnp.h"
#include "gcs/head/record_codec.h"
#include "tests/sim/disk.h"

namespace troupe::sim {
namespace {

std::uint64_t number(const std::string& text) { return std::stoull(text); }

std::string shown(gcs::Table table, const std::string& bytes) {
  if (table != gcs::Table::actors) return std::to_string(bytes.size()) + " bytes";
  kj::ArrayInputStream in(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
  capnp::PackedMessageReader message(in);
  return kj::str(message.getRoot<wire::ActorRecord>()).cStr();
}

}  // namespace

Judge::Judge(Disk& disk) : disk_(disk) {
  disk_.on_write = [this](const gcs::Write& write) { written(write); };
}

void Judge::violation(const std::string& what) {
  if (!verdict_) verdict_ = what;
}

// ---- reality ----

void Judge::agent_starts(std::uint64_t agent, const Resources& total) {
  ++facts_;
  agents_.emplace(agent, total);
}

void Judge::agent_gone(std::uint64_t agent) {
  ++facts_;
  agents_.erase(agent);
}

void Judge::hosting(std::uint64_t key, const Hosted& hosted) {
  ++facts_;
  Hosted& kept = hosted_[key] = hosted;
  auto at = stored_.find(hosted.actor);
  if (at == stored_.end())
    return violation("actor " + to_string(hosted.actor) + " runs, and is not on the disk");
  kept.resources = at->second.resources;
  check_physical(hosted.agent);
}

bool Judge::known_dead(ActorId actor) const {
  auto at = stored_.find(actor);
  return at != stored_.end() && at->second.dead;
}

void Judge::hosting_over(std::uint64_t key) {
  ++facts_;
  hosted_.erase(key);
}

void Judge::check_physical(std::uint64_t agent) {
  auto total = agents_.find(agent);
  if (total == agents_.end()) return;  // it is gone, its workers are about to be
  Resources used;
  std::map<std::uint16_t, std::int64_t> slots;
  for (const auto& [key, one] : hosted_) {
    if (one.agent != agent) continue;
    used.add(one.resources);
    std::int64_t units = one.resources.units("gpu");
    for (auto slot : one.gpus) slots[slot] += std::min(units, Resources::kOne);
  }
  if (!total->second.covers(used)) {
    violation("a node's processes hold " + used.describe() + " of " + total->second.describe());
  }
  for (auto [slot, units] : slots) {
    if (units > Resources::kOne) violation("GPU slot " + std::to_string(slot) + " was given twice");
  }
}

void Judge::reported_alive(std::uint64_t key) {
  ++facts_;
  auto at = hosted_.find(key);
  if (at != hosted_.end()) at->second.alive = true;
}

// ---- acknowledged and told ----

void Judge::spawn_acknowledged(ActorId actor) {
  if (stored_.count(actor) == 0) violation("spawn of " + to_string(actor) + " acknowledged, not on the disk");
  ++facts_;
  must_be_known_.insert(actor);
}

void Judge::kill_acknowledged(ActorId actor) {
  auto at = stored_.find(actor);
  if (at == stored_.end() || !at->second.dead) {
    violation("kill of " + to_string(actor) + " acknowledged, not on the disk");
  }
  ++facts_;
  must_be_dead_.insert(actor);
}

void Judge::job_acknowledged(JobId job) {
  if (jobs_ever_.count(job.value) == 0) violation("job " + to_string(job) + " opened, not on the disk");
}

void Judge::node_acknowledged(NodeId node) {
  if (nodes_ever_.count(node.value) == 0) violation("node " + to_string(node) + " joined, not on the disk");
}

void Judge::told(const std::string& listener, ActorId actor, gcs::Phase phase, std::uint32_t incarnation) {
  Told& known = told_[{listener, actor}];
  std::string who = listener + ": actor " + to_string(actor);
  if (known.dead && phase != gcs::Phase::dead) violation(who + " was told dead, then " + to_string(phase));
  if (phase == gcs::Phase::alive) {
    if (incarnation < known.incarnation) {
      violation(who + " was told alive with incarnation " + std::to_string(known.incarnation) + ", then " +
                std::to_string(incarnation));
    }
    known.incarnation = std::max(known.incarnation, incarnation);
  }
  if (phase == gcs::Phase::dead) {
    known.dead = true;
    ++facts_;
    must_be_dead_.insert(actor);
    auto at = stored_.find(actor);
    if (at != stored_.end() && !at->second.dead) violation(who + " was told dead, and is not on the disk");
  }
}

// ---- the disk ----

void Judge::written(const gcs::Write& write) {
  if (write.table == gcs::StoreTable::jobs) jobs_ever_.insert(number(write.key));
  if (write.table == gcs::StoreTable::nodes) nodes_ever_.insert(number(write.key));
  if (write.table == gcs::StoreTable::quarantine) violation("a record was quarantined: " + write.key);
  if (write.table == gcs::StoreTable::counters && write.value) {
    auto& table = disk_.table(gcs::StoreTable::counters);
    auto at = table.find(write.key);
    if (at != table.end() && number(*write.value) < number(at->second)) violation("a counter went back");
  }
  if (write.table != gcs::StoreTable::actors) return;
  ActorId id{number(write.key)};
  std::string who = "on the disk, actor " + to_string(id);
  if (!write.value) {
    auto at = stored_.find(id);
    if (at != stored_.end() && !at->second.dead) violation(who + " was erased alive");
    return;
  }
  kj::ArrayInputStream in(
      kj::arrayPtr(reinterpret_cast<const kj::byte*>(write.value->data()), write.value->size()));
  capnp::PackedMessageReader message(in);
  auto record = message.getRoot<wire::ActorRecord>();
  auto [known, fresh] = stored_.try_emplace(id);
  Stored& stored = known->second;
  if (fresh) {
    for (auto amount : record.getSpec().getOptions().getResources())
      stored.resources.set_units(amount.getName().cStr(), amount.getUnits());
  }
  bool dead = record.getPhase() == wire::ActorPhase::DEAD;
  if (stored.dead && !dead) violation(who + " rose from the dead");
  if (record.getIncarnation() < stored.incarnation) violation(who + " went back to an old incarnation");
  stored.dead = dead;
  stored.incarnation = record.getIncarnation();
  std::string name = record.getSpec().getOptions().getName().cStr();
  if (name.empty()) return;
  auto holder = names_.find(name);
  if (dead) {
    if (holder != names_.end() && holder->second == id) names_.erase(holder);
  } else {
    names_[name] = id;
  }
}

// ---- heads ----

void Judge::check_tables(const gcs::ControlStore& core) {
  if (std::string bad = core.check(); !bad.empty()) violation(bad);
}

void Judge::check(const gcs::ControlStore& core) {
  for (ActorId id : must_be_dead_) {
    const gcs::ActorRecord* record = core.actor(id);
    if (record != nullptr && record->phase != gcs::Phase::dead) {
      violation("actor " + to_string(id) + " is " + to_string(record->phase) + " after it was known dead");
    }
  }
  for (auto at = must_be_known_.begin(); at != must_be_known_.end();) {
    if (core.actor(*at) != nullptr) {
      ++at;
      continue;
    }
    if (!stored_[*at].dead) violation("actor " + to_string(*at) + " was acknowledged and is lost");
    at = must_be_known_.erase(at);  // it had ended, and its record was dropped in time
  }
  // Of the nodes the head holds for alive, one at most runs an actor.
  std::map<ActorId, const Hosted*> running;
  for (const auto& [key, one] : hosted_) {
    if (!one.alive) continue;
    const gcs::NodeRecord* node = core.node(one.node);
    if (node == nullptr || node->phase != gcs::NodePhase::alive || agents_.count(one.agent) == 0) continue;
    auto [at, fresh] = running.emplace(one.actor, &one);
    if (!fresh) violation("actor " + to_string(one.actor) + " runs twice");
  }
}

void Judge::check_disk(const gcs::ControlStore& core) {
  auto same = [&](gcs::Table table, std::uint64_t id) {
    gcs::Write should = gcs::encode(core, table, id);
    const auto& lies = disk_.table(should.table);
    auto at = lies.find(should.key);
    if (at == lies.end() || !should.value || at->second != *should.value) {
      std::string there = at == lies.end() ? "nothing" : shown(table, at->second);
      violation("record " + std::string(to_string(table)) + "/" + should.key + " differs on the disk: " +
                there + " instead of " + (should.value ? shown(table, *should.value) : "nothing"));
    }
  };
  for (const auto& [id, node] : core.nodes()) same(gcs::Table::nodes, id.value);
  for (const auto& [id, job] : core.jobs()) same(gcs::Table::jobs, id.value);
  for (const auto& [id, actor] : core.actors()) same(gcs::Table::actors, id.value);
  if (disk_.table(gcs::StoreTable::actors).size() != core.actors().size()) {
    violation("the disk holds actors that the head does not know");
  }
}

}  // namespace troupe::sim
