#include "gcs/store/redis_lease.h"

#include <hiredis/hiredis.h>

namespace troupe::gcs {

RedisLease::RedisLease(asio::io_context& io, RedisAddress address, std::string prefix)
    : io_(io), address_(std::move(address)), key_(std::move(prefix) + "lease"), timer_(io) {}

void RedisLease::keep() { connect(); }

void RedisLease::watch(std::function<void()> gone) {
  gone_ = std::move(gone);
  connect();
}

void RedisLease::connect() {
  connection_ = std::make_unique<RedisConnection>(io_, address_, [this](const std::string&) {
    looks_ = 0;
    connection_.reset();
    again(kLook);
  });
  auto ignore = [](const redisReply&) {};
  if (!address_.password.empty()) connection_->command({"AUTH", address_.password}, ignore);
  if (address_.db != 0) connection_->command({"SELECT", std::to_string(address_.db)}, ignore);
  act();
}

void RedisLease::act() {
  if (!gone_) {
    connection_->command({"SET", key_, "held", "PX", std::to_string(kLife.count())},
                         [](const redisReply&) {});
    again(kRenew);
    return;
  }
  connection_->command({"EXISTS", key_}, [this](const redisReply& reply) {
    bool free = reply.type == REDIS_REPLY_INTEGER && reply.integer == 0;
    looks_ = free ? looks_ + 1 : 0;
    if (looks_ < kLooks) return again(kLook);
    timer_.cancel();
    gone_();
  });
}

void RedisLease::again(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](asio::error_code bad) {
    if (bad || alive.expired()) return;
    if (connection_)
      act();
    else
      connect();
  });
}

}  // namespace troupe::gcs
