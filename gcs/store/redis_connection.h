// One connection to Redis: hiredis' asynchronous API driven by Asio's readiness.
//
// Owner: RedisStore. Thread: that of the io_context. Lifetime: destroying it drops everything without
// callbacks; it may be destroyed inside its own callbacks. Errors: on_end is called once, with the reason;
// replies still awaited get none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

// After a standard header: Asio 1.22 otherwise takes this library for one without aligned_alloc, and frees
// with another function than it allocates with.
#include <asio/io_context.hpp>

#include "gcs/store/redis_url.h"

struct redisReply;

namespace troupe::gcs {

class RedisConnection {
 public:
  using Reply = std::function<void(const redisReply&)>;
  using End = std::function<void(const std::string& why)>;

  RedisConnection(asio::io_context& io, const RedisAddress& address, End on_end);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;

  // Replies come in the order of the commands, on the loop, never inside this call.
  void command(const std::vector<std::string>& words, Reply reply);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace troupe::gcs
