// The vocabulary of the control store's pure core: plain values, no wire types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/resources.h"

namespace troupe::gcs {

using Time = std::int64_t;  // Unix milliseconds, never going back
using RequestId =
    std::uint64_t;           // chosen by the caller of the core; comes back in one Reply; 0: no answer wanted
using Turn = std::uint64_t;  // numbers the batches written to the store
using Cause = std::shared_ptr<const Error>;

enum class Isolation : std::uint8_t { process, light };
enum class Phase : std::uint8_t { pending, starting, alive, restarting, dead };
enum class Table : std::uint8_t { nodes, jobs, actors, counters };
inline constexpr int kTables = 4;
enum class Counter : std::uint8_t { node, job, process };  // keys of Table::counters
inline constexpr int kCounters = 3;

const char* to_string(Phase phase);
const char* to_string(Table table);

struct Endpoint {
  ProcessId process;
  NodeId node;
  std::string host_id;
  std::string unix_path;
  std::string tcp_host;
  std::uint16_t tcp_port = 0;
  std::uint16_t lane = 0;  // of the process
  std::int32_t pid = 0;    // on its host
  bool operator==(const Endpoint&) const = default;
};

struct NodeInfo {
  std::string name;
  std::string host_id;
  std::int32_t pid = 0;
  std::string address;
  Resources resources;
  std::string objects_path;  // of its object store; see wire::NodeInfo
  std::uint16_t objects_port = 0;
};

struct JobInfo {
  JobId job;
  std::string name;
  std::string executable;
  std::uint64_t fingerprint = 0;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string directory;
  std::string host_id;
  std::int32_t pid = 0;
};

// As the spawner asked; only the place matters to the head.
struct Durability {
  enum class Place : std::uint8_t { node, shared, store };
  Place place = Place::node;
  std::string path;
  std::uint64_t key = 0, snapshot_calls = 0, snapshot_ms = 0, snapshot_bytes = 0, journal_limit = 0;
  bool operator==(const Durability&) const = default;
};

struct ActorSpec {
  ActorId actor;
  std::string class_name;
  std::string args;
  std::string name;
  std::string node;  // affinity
  Resources resources;
  ActorId owner;
  std::int32_t max_restarts = 0;
  Time restart_window = 0;  // in which they count; 0: the actor's life
  Isolation isolation = Isolation::process;
  bool detached = false;
  bool get_or_create = false;
  std::optional<Durability> durability;
  bool operator==(const ActorSpec&) const = default;
};
using SpecPtr = std::shared_ptr<const ActorSpec>;

inline ProcessId spawner_of(ActorId actor) { return {actor.value >> kActorCounterBits}; }

// What callers must know of an actor.
struct ActorState {
  ActorId actor;
  std::uint32_t incarnation = 0;
  Phase phase = Phase::pending;
  bool infeasible = false;
  std::shared_ptr<const Endpoint> endpoint;  // when alive
  Cause failure;                             // when dead or restarting, or infeasible
  SpecPtr spec;                              // none for an actor that is not known
};

struct IncarnationOver {
  ActorId actor;
  std::uint32_t incarnation;  // it and all before it
  Cause why;
  bool final;  // there will be no other
};

}  // namespace troupe::gcs
