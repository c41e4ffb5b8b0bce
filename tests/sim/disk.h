// A simulated store: a durable image that heads come and go on, and the connections they write it through.
//
// Owner: the simulation (Disk), a head (DiskStore). Thread: one. A Disk outlives its stores; what a store has
// sent may take effect after the store is gone, as a request does that was on its way when its sender died.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "gcs/store/store.h"
#include "tests/sim/random.h"
#include "tests/sim/virtual_time.h"

namespace troupe::sim {

class Disk {
 public:
  using Table = std::map<std::string, std::string>;

  const Table& table(gcs::StoreTable table) const { return tables_[static_cast<std::size_t>(table)]; }
  void put(gcs::StoreTable table, const std::string& key, std::string value);

  // Whoever loads owns it; writes of others are refused.
  std::uint64_t claim() { return ++owner_; }
  bool owned_by(std::uint64_t token) const { return owner_ == token; }
  void apply(const gcs::Batch& batch);

  bool away = false;                                // answers nobody
  std::function<void(const gcs::Write&)> on_write;  // before it takes effect
  std::uint64_t batches = 0;

 private:
  std::array<Table, gcs::kStoreTables + 1> tables_;  // and the journals
  std::uint64_t owner_ = 0;
};

class DiskStore final : public gcs::Store {
 public:
  struct Faults {
    unsigned fails_before = 0, fails_after = 0, slow = 0;  // per mille of the batches
    Micros least = 100, most = 2 * kMilli, slowest = 3 * kSecond;
    Micros patience = 10 * kSecond;  // with a store that is away
  };
  DiskStore(VirtualTime& time, Random& random, Disk& disk, const Faults& faults);

  void load(Loaded done) override;
  void read_journal(const std::string& actor, Found done) override;
  void write(gcs::Batch batch, Written done) override;
  std::string state() const override { return fenced_ ? "fenced" : disk_.away ? "away" : "ready"; }
  bool fenced() const override { return fenced_; }
  bool owns() const { return disk_.owned_by(token_); }  // though it may not know it yet
  void mute() { mute_ = true; }                         // its process has crashed: nothing leaves any more

 private:
  struct Waiting {
    std::shared_ptr<gcs::Batch> batch;
    Written done;
    Micros since;
  };
  void begin_next();
  void attempt();
  void end(Result<void> result);
  Micros latency();

  VirtualTime& time_;
  Random& random_;
  Disk& disk_;
  const Faults& faults_;
  std::uint64_t token_ = 0;
  bool fenced_ = false, mute_ = false;
  std::deque<Waiting> waiting_;
  bool busy_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace troupe::sim
