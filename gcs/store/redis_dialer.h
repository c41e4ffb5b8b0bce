// Connects to the Redis that may be written: the one of the address, or the master that the sentinels name
// and that itself says that it is one.
//
// Owner: RedisStore, RedisLease. Thread: that of the io_context. Lifetime: outlives the connections it has
// made; dropping it ends the attempt. One attempt at a time, of one sentinel after the other; whoever dials
// again after a failure pauses in between.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "gcs/store/redis_connection.h"

#include <asio/steady_timer.hpp>

namespace troupe::gcs {

class RedisDialer {
 public:
  struct Events {
    // With the password and the database given. Without sentinels it runs inside dial().
    std::function<void(std::unique_ptr<RedisConnection>)> connected;
    std::function<void(const std::string& why)> ended;    // the attempt, or later the connection
    std::function<void(const std::string& why)> refused;  // the password or the database
  };
  static constexpr std::chrono::milliseconds kPatience{1000};  // for a sentinel's or a master's answer

  RedisDialer(asio::io_context& io, RedisAddress address, std::chrono::milliseconds patience = kPatience);
  RedisDialer(const RedisDialer&) = delete;

  void dial(Events events);
  void drop();  // the attempt

 private:
  void ask();
  void next(const std::string& why);
  void fail(const std::string& why);
  void try_master(const std::string& host, const std::string& port);
  void greet(RedisConnection& connection);
  void arm(std::function<void()> late);

  asio::io_context& io_;
  RedisAddress address_;
  std::chrono::milliseconds patience_;
  std::shared_ptr<Events> events_;
  std::size_t first_ = 0;  // the sentinel that is asked first
  std::size_t asked_ = 0;
  std::unique_ptr<RedisConnection> trying_;
  asio::steady_timer timer_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for timers
};

}  // namespace troupe::gcs
