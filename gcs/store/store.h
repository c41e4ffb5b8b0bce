// Where the head's records lie durably: a few tables of key → value.
//
// Owner: the head command. Thread: the control thread; callbacks run on it, possibly inside the call.
// Writes take effect whole, in the order given, or fail with an Error; after a failure a write may still have
// taken effect, so the caller writes the newest values of its keys again.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace troupe::gcs {

// `journals` is a table for each actor: keys are "ACTOR/FIELD", and erasing "ACTOR/" erases them all. It is
// not among what load() reads.
enum class StoreTable : std::uint8_t { nodes, jobs, actors, counters, quarantine, journals };
inline constexpr std::size_t kStoreTables = 5;
const char* to_string(StoreTable table);

struct Write {
  StoreTable table;
  std::string key;
  std::optional<std::string> value;  // none: erase
};
using Batch = std::vector<Write>;

struct Entry {
  std::string key;
  std::string value;
};
using Tables = std::array<std::vector<Entry>, kStoreTables>;

class Store {
 public:
  using Written = std::function<void(Result<void>)>;
  using Loaded = std::function<void(Result<Tables>)>;

  virtual ~Store() = default;

  virtual void load(Loaded done) = 0;
  // The fields of one actor's journal, after all writes that are done.
  using Found = std::function<void(Result<std::vector<Entry>>)>;
  virtual void read_journal(const std::string& actor, Found done) = 0;
  virtual void write(Batch batch, Written done) = 0;  // `done` when durable
  virtual std::string state() const = 0;              // for people: "ready", "away for 3 s: …"
  // How long it has not answered; none: it is ready.
  virtual std::optional<std::chrono::milliseconds> away() const { return std::nullopt; }

  // Asked when the store is found older than what it has acknowledged, as after a failover that lost the
  // end: the whole contents of the tables from nodes to counters, which then replaces what lies there; and
  // writes to journals, if need be. It covers all writes to those tables that still wait. None: not now.
  using Whole = std::function<std::optional<Batch>()>;
  virtual void on_older(Whole) {}

  // Set when another head has taken the store over: this one must end.
  virtual bool fenced() const { return false; }
};

}  // namespace troupe::gcs
