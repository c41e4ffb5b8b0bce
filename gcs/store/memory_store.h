// A store without durability, for tests. Its writes are done when the test says so, or at once.
#pragma once

#include <deque>
#include <map>

#include "gcs/store/store.h"

namespace troupe::gcs {

class MemoryStore : public Store {
 public:
  void load(Loaded done) override;
  void read_journal(const std::string& actor, Found done) override;
  void write(Batch batch, Written done) override;
  std::string state() const override { return fenced_ ? "fenced: by a test" : "in memory"; }
  bool fenced() const override { return fenced_; }
  void on_older(Whole whole) override { whole_ = std::move(whole); }

  // Writes wait for finish() or fail().
  void hold() { held_ = true; }
  void resume();
  bool finish_one();
  bool fail_one(Error error);
  // Another head has taken it over. As with a real store, the owner learns that from its next write only.
  void fence();
  void lose_everything();  // and takes it back from the owner
  std::size_t waiting() const { return waiting_.size(); }
  const std::map<std::string, std::string>& table(StoreTable table) const {
    return tables_[static_cast<std::size_t>(table)];
  }
  void put(StoreTable table, const std::string& key, std::string value);
  std::size_t batches() const { return batches_; }

 private:
  struct Waiting {
    Batch batch;
    Written done;
  };
  void apply(const Batch& batch);

  std::array<std::map<std::string, std::string>, kStoreTables + 1> tables_;
  std::deque<Waiting> waiting_;
  std::size_t batches_ = 0;
  bool held_ = false;
  bool taken_over_ = false, fenced_ = false;
  Whole whole_;
};

}  // namespace troupe::gcs
