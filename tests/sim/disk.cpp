#include "tests/sim/disk.h"

namespace troupe::sim {
namespace {

constexpr Micros kLook = 50 * kMilli;  // how often a store that is away is tried

}  // namespace

void Disk::put(gcs::StoreTable table, const std::string& key, std::string value) {
  tables_[static_cast<std::size_t>(table)][key] = std::move(value);
}

void Disk::apply(const gcs::Batch& batch) {
  ++batches;
  for (const gcs::Write& write : batch) {
    if (on_write) on_write(write);
    Table& table = tables_[static_cast<std::size_t>(write.table)];
    if (write.table == gcs::StoreTable::journals && write.key.ends_with('/'))
      std::erase_if(table, [&](const auto& entry) { return entry.first.starts_with(write.key); });
    else if (write.value)
      table[write.key] = *write.value;
    else
      table.erase(write.key);
  }
}

DiskStore::DiskStore(VirtualTime& time, Random& random, Disk& disk, const Faults& faults)
    : time_(time), random_(random), disk_(disk), faults_(faults) {}

Micros DiskStore::latency() {
  return random_.chance(faults_.slow) ? random_.between(faults_.most, faults_.slowest)
                                      : random_.between(faults_.least, faults_.most);
}

void DiskStore::read_journal(const std::string& actor, Found done) {
  time_.after(latency(), [this, alive = std::weak_ptr<int>(alive_), actor, done = std::move(done)] {
    if (alive.expired()) return;
    if (disk_.away) return done(Error(ErrorKind::unavailable, "the store is away"));
    std::vector<gcs::Entry> found;
    for (const auto& [key, value] : disk_.table(gcs::StoreTable::journals)) {
      if (key.starts_with(actor + "/")) found.push_back({key.substr(actor.size() + 1), value});
    }
    done(std::move(found));
  });
}

void DiskStore::load(Loaded done) {
  time_.after(latency(), [this, alive = std::weak_ptr<int>(alive_), done = std::move(done)] {
    if (alive.expired()) return;
    if (disk_.away) {
      done(Error(ErrorKind::unavailable, "the store is away"));
      return;
    }
    token_ = disk_.claim();
    gcs::Tables tables;
    for (std::size_t i = 0; i < gcs::kStoreTables; ++i) {
      for (const auto& [key, value] : disk_.table(static_cast<gcs::StoreTable>(i))) {
        tables[i].push_back({key, value});
      }
    }
    done(std::move(tables));
  });
}

void DiskStore::write(gcs::Batch batch, Written done) {
  if (mute_) return;
  waiting_.push_back({std::make_shared<gcs::Batch>(std::move(batch)), std::move(done), time_.now()});
  begin_next();
}

void DiskStore::begin_next() {
  if (busy_ || waiting_.empty()) return;
  busy_ = true;
  attempt();
}

void DiskStore::attempt() {
  std::weak_ptr<int> alive = alive_;
  auto fate = random_.below(1000);
  bool before = fate < faults_.fails_before;
  bool after = !before && fate < faults_.fails_before + faults_.fails_after;
  // The effect needs the store only; the answer needs the head too.
  bool sent = random_.chance(500);  // had it left when the head died?
  time_.after(latency(), [this, alive, before, after, sent, &disk = disk_, token = token_,
                          batch = waiting_.front().batch] {
    if (alive.expired() || mute_) {
      if (sent && !before && !disk.away && disk.owned_by(token)) disk.apply(*batch);
      return;
    }
    if (disk_.away) {
      if (time_.now() - waiting_.front().since < faults_.patience) {
        time_.after(kLook, [this, alive] {
          if (!alive.expired()) attempt();
        });
        return;
      }
      return end(Error(ErrorKind::unavailable, "the store is away"));
    }
    if (!disk_.owned_by(token_)) {
      fenced_ = true;
      return end(Error(ErrorKind::cancelled, "another head has taken over the store"));
    }
    if (before) return end(Error(ErrorKind::unavailable, "the store refused a write"));
    disk_.apply(*batch);
    time_.after(latency(), [this, alive, after] {
      if (alive.expired() || mute_) return;
      if (after) return end(Error(ErrorKind::unavailable, "the store's answer was lost"));
      end({});
    });
  });
}

void DiskStore::end(Result<void> result) {
  Written done = std::move(waiting_.front().done);
  waiting_.pop_front();
  busy_ = false;
  std::weak_ptr<int> alive = alive_;
  done(std::move(result));
  if (!alive.expired()) begin_next();
}

}  // namespace troupe::sim
