#include "gcs/store/redis_lease.h"

#include <hiredis/hiredis.h>

namespace troupe::gcs {

RedisLease::RedisLease(asio::io_context& io, RedisAddress address, std::string prefix)
    : dialer_(io, std::move(address)), key_(std::move(prefix) + "lease"), timer_(io) {}

void RedisLease::keep() { connect(); }

void RedisLease::watch(std::function<void()> gone) {
  gone_ = std::move(gone);
  connect();
}

void RedisLease::connect() {
  auto end = [this](const std::string&) { lost(); };
  dialer_.dial({[this](std::unique_ptr<RedisConnection> made) {
                  connection_ = std::move(made);
                  act();
                },
                end, end});
}

void RedisLease::lost() {
  looks_ = 0;
  needed_ = kLooksAfterLoss;
  asked_ = false;
  connection_.reset();
  dialer_.drop();
  again(kLook);
}

void RedisLease::act() {
  auto now = std::chrono::steady_clock::now();
  if (asked_ && now - asked_at_ > kSilence) return lost();
  again(gone_ ? kLook : kRenew);
  if (std::exchange(asked_, true)) return;
  asked_at_ = now;
  if (!gone_) {
    connection_->command({"SET", key_, "held", "PX", std::to_string(kLife.count())},
                         [this](const redisReply& reply) {
                           asked_ = false;
                           if (reply.type == REDIS_REPLY_ERROR) lost();  // a master no longer, perhaps
                         });
    return;
  }
  connection_->command({"EXISTS", key_}, [this](const redisReply& reply) {
    asked_ = false;
    if (reply.type != REDIS_REPLY_INTEGER) return lost();
    looks_ = reply.integer == 0 ? looks_ + 1 : 0;
    if (reply.integer != 0) needed_ = kLooks;
    if (looks_ >= needed_) take();
  });
}

// Of several who find it gone one takes it; it is then kept while that one begins.
void RedisLease::take() {
  connection_->command({"SET", key_, "held", "NX", "PX", std::to_string(kLife.count())},
                       [this](const redisReply& reply) {
                         if (reply.type == REDIS_REPLY_ERROR) return lost();
                         looks_ = 0;
                         if (reply.type == REDIS_REPLY_NIL) return;  // another was first
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
