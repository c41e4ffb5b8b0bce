#include "gcs/store/memory_store.h"

namespace troupe::gcs {

const char* to_string(StoreTable table) {
  constexpr const char* kNames[] = {"nodes", "jobs", "actors", "counters", "quarantine", "journals"};
  return kNames[static_cast<std::size_t>(table)];
}

void MemoryStore::load(Loaded done) {
  Tables tables;
  for (std::size_t i = 0; i < kStoreTables; ++i) {
    for (const auto& [key, value] : tables_[i]) tables[i].push_back({key, value});
  }
  done(std::move(tables));
}

void MemoryStore::read_journal(const std::string& actor, Found done) {
  std::vector<Entry> found;
  for (const auto& [key, value] : table(StoreTable::journals)) {
    if (key.rfind(actor + "/", 0) == 0) found.push_back({key.substr(actor.size() + 1), value});
  }
  done(std::move(found));
}

void MemoryStore::write(Batch batch, Written done) {
  ++batches_;
  fenced_ |= taken_over_;
  if (fenced_) return done(Error(ErrorKind::cancelled, "another head has taken over the store"));
  if (held_) {
    waiting_.push_back({std::move(batch), std::move(done)});
    return;
  }
  apply(batch);
  done({});
}

void MemoryStore::resume() {
  held_ = false;
  while (finish_one()) {
  }
}

bool MemoryStore::finish_one() {
  if (waiting_.empty()) return false;
  Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  apply(next.batch);
  next.done({});
  return true;
}

bool MemoryStore::fail_one(Error error) {
  if (waiting_.empty()) return false;
  Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  next.done(std::move(error));
  return true;
}

void MemoryStore::fence() {
  taken_over_ = true;
  fenced_ |= !waiting_.empty();
  while (fail_one(Error(ErrorKind::cancelled, "another head has taken over the store"))) {
  }
}

void MemoryStore::lose_everything() {
  for (auto& table : tables_) table.clear();
  if (auto all = whole_()) apply(*all);
}

void MemoryStore::put(StoreTable table, const std::string& key, std::string value) {
  tables_[static_cast<std::size_t>(table)][key] = std::move(value);
}

void MemoryStore::apply(const Batch& batch) {
  for (const Write& write : batch) {
    auto& table = tables_[static_cast<std::size_t>(write.table)];
    if (write.table == StoreTable::journals && write.key.ends_with('/')) {
      std::erase_if(table, [&](const auto& entry) { return entry.first.rfind(write.key, 0) == 0; });
    } else if (write.value) {
      table[write.key] = *write.value;
    } else {
      table.erase(write.key);
    }
  }
}

}  // namespace troupe::gcs
