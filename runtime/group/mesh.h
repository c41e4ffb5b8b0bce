// Mesh: one rank's connections to all ranks of its generation. Messages are matched by (peer, tag) and arrive
// in order; the receiver's space must be at least as large as the message.
//
// The first failure (deadline, a lost connection, abort) is for good: every wait, now or later, returns
// false, and failure() tells why. A wait never outlasts the deadline or an abort.
//
// Owner: the communicator. Thread: the communicator's, except where stated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace troupe {

struct MeshFailure {
  Error error;
  std::vector<int> ranks;        // whose connections are lost, or that were waited for
  bool connection_lost = false;  // and not a deadline or an abort
};

class Mesh {
 public:
  static constexpr int kMostRanks = 1024;

  // Memory that messages are sent from or received into; it outlives the buffer. Dropping a buffer with
  // messages under way is allowed once the mesh has failed.
  class Buffer {
   public:
    virtual ~Buffer() = default;
    virtual void send(int peer, std::uint64_t tag, std::size_t offset, std::size_t bytes) = 0;
    virtual void recv(int peer, std::uint64_t tag, std::size_t offset, std::size_t bytes) = 0;
    // For one of the messages begun: those with one peer end in their order. False: the mesh has failed.
    virtual bool wait_send() = 0;
    virtual bool wait_recv() = 0;
  };

  virtual ~Mesh() = default;

  // What the other ranks need to connect to this one.
  virtual Result<std::string> address() = 0;
  // With the addresses of all ranks. False: see failure().
  virtual bool connect(const std::vector<std::string>& addresses) = 0;
  virtual std::unique_ptr<Buffer> buffer(void* memory, std::size_t bytes) = 0;

  // Of waits from now on and, when earlier than theirs, of those under way. Any thread.
  virtual void set_deadline(std::int64_t deadline_ns) = 0;
  virtual std::int64_t deadline() const = 0;
  // Any thread; returns at once.
  virtual void abort(const Error& why) = 0;
  virtual bool failed() const = 0;                         // any thread
  virtual std::optional<MeshFailure> failure() const = 0;  // any thread
  // Closes the connections. No buffer is left then. May take 10 ms a connection.
  virtual void close() = 0;
};

}  // namespace troupe
