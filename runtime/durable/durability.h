// How an actor was asked to be durable; plain values that travel with its spawn.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct Durability {
  // Numbers are on the wire.
  enum class Place : std::uint8_t {
    node = 0,    // files in the folder of the node agent: survives the worker, not the node
    shared = 1,  // files in a folder that all nodes see
    store = 2,   // the head's Redis
  };

  Place place = Place::node;
  std::string path;                  // shared: the folder
  std::uint64_t key = 0;             // random, so that a journal is never taken for another actor's
  std::uint64_t snapshot_calls = 0;  // 0: not by count
  std::uint64_t snapshot_ms = 0;     // 0: not by time
  std::uint64_t snapshot_bytes = 64 << 20;
  std::uint64_t journal_limit = 1 << 30;

  bool operator==(const Durability&) const = default;
};

// Bounds of journals in the store, which travel in messages.
inline constexpr std::uint64_t kMostStoredImage = 24u << 20;  // a snapshot
inline constexpr std::uint64_t kMostStoredBlock = 8u << 20;   // the calls of one write
inline constexpr std::uint64_t kStoredJournalLimit = 16u << 20;
inline constexpr std::uint64_t kStoredSnapshotBytes = 4u << 20;

}  // namespace troupe
