// Durable: how an actor's state survives the end of its process.
//
//   class Account {
//    public:
//     void deposit(int amount) { balance_ += amount; }
//     int balance() const { return balance_; }
//     void save(troupe::Writer& to) const { troupe::encode(to, balance_); }
//     void load(troupe::Reader& from) { troupe::decode(from, balance_); }
//     …
//   };
//   auto account = troupe::spawn<Account>(troupe::ActorOptions().durable(troupe::Durable()));
//
// Calls are journalled, and answered when the journal is on the disk. When the actor is made again, the last
// snapshot is loaded and the calls since then run again in their order. See docs/concepts/durable.md.
//
// Limits: methods that are not const must depend on their arguments and the object's state alone; methods
// that return futures, tasks or streams, and concurrent classes, do not compile.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>

#include "core/codec/archive.h"
#include "runtime/durable/durability.h"

namespace troupe {

template <class T>
concept Savable = requires(const T& saved, T& loaded, Writer& to, Reader& from) {
  { saved.save(to) } -> std::same_as<void>;
  { loaded.load(from) } -> std::same_as<void>;
};

// Where the journal lies.
class JournalPlace {
 public:
  // Files of the node agent: survives the worker; the actor is made again on the same node. The default.
  static JournalPlace node() { return JournalPlace(Durability::Place::node); }
  // A folder that all nodes see, such as one on NFS: survives the loss of a node.
  static JournalPlace shared(std::string folder) {
    JournalPlace place(Durability::Place::shared);
    place.path_ = std::move(folder);
    return place;
  }
  // The head's Redis: survives the loss of a node; slower.
  static JournalPlace store() { return JournalPlace(Durability::Place::store); }

 private:
  friend class Durable;
  explicit JournalPlace(Durability::Place place) : place_(place) {}
  Durability::Place place_;
  std::string path_;
};

class Durable {
 public:
  Durable& journal(JournalPlace place) {
    plan_.place = place.place_;
    plan_.path = std::move(place.path_);
    return *this;
  }
  // A snapshot after so many journalled calls. Default: not by count.
  Durable& snapshot_every(std::uint64_t calls) { return plan_.snapshot_calls = calls, *this; }
  // A snapshot with the first call that ends so long after the last one. Default: not by time.
  Durable& snapshot_every(std::chrono::milliseconds time) {
    return plan_.snapshot_ms = static_cast<std::uint64_t>(time.count() > 0 ? time.count() : 0), *this;
  }
  // A snapshot when the journal has grown to so many bytes; 0: not by size. Default: 64 MiB.
  Durable& snapshot_above(std::uint64_t bytes) { return plan_.snapshot_bytes = bytes, *this; }
  // Calls fail with Overloaded when the journal is longer, because no snapshot could be written. Default: 1
  // GiB.
  Durable& journal_limit(std::uint64_t bytes) { return plan_.journal_limit = bytes, *this; }

  const Durability& plan() const { return plan_; }

 private:
  Durability plan_;
};

}  // namespace troupe
