// The head: Cap'n Proto servers of Head, Membership, Session and Admin around the pure control store.
//
// Everything that arrives in one turn of the loop becomes one batch in the store; what depends on it
// (answers, commands to agents, news to clients) leaves when the batch is durable. While Redis is away reads
// are answered, changes wait for the store's bound and then fail as unavailable; nothing else breaks.
//
// Owner: the head command. Thread: the control thread, with a KJ event loop. Lifetime: `timer` and `store`
// outlive it; capabilities it has given out may outlive it and then fail. Errors cross as kj_exception
// (core/control).
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <functional>
#include <memory>
#include <string>

#include "core/protocol/cluster.capnp.h"
#include "gcs/control_store/control_store.h"
#include "gcs/store/store.h"

namespace troupe::gcs {

class HeadState;

class HeadServer {
 public:
  struct Options {
    ControlStore::Options core;
    kj::Duration heartbeat_timeout = 1 * kj::SECONDS;
    kj::Duration ownership_check =
        0 * kj::SECONDS;                   // how often to look whether another head has the store; 0: never
    kj::Duration retry = 1 * kj::SECONDS;  // of commands an agent could not carry out
    std::size_t most_waiting = 100'000;    // requests that wait for the store
    std::size_t most_output = 10'000;      // lines that wait for one driver
    std::string address;                   // shown in status
    std::string version;
    std::function<Time()> now;  // Unix milliseconds; none: the system clock
  };

  HeadServer(kj::Timer& timer, Store& store, Options options);
  ~HeadServer() noexcept(false);
  HeadServer(const HeadServer&) = delete;

  // Reads the store. Serve bootstrap() when it is done. Rejected when the store cannot be read.
  kj::Promise<void> start();

  wire::Head::Client bootstrap();

  // Fulfilled when an Admin asked for the end and everybody was told; rejected when another head took the
  // store over.
  kj::Promise<void> shutdown_requested();
  // The same as Admin.shutdown, for a signal handler. shutdown_requested() tells when it is done.
  void shut_down();

  void set_address(std::string address);  // known after listening
  const ControlStore& core() const;       // for tests and views

 private:
  std::shared_ptr<HeadState> state_;
};

}  // namespace troupe::gcs
