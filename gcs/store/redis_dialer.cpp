#include "gcs/store/redis_dialer.h"

#include <hiredis/hiredis.h>

#include <charconv>

namespace troupe::gcs {
namespace {

std::string text_of(const redisReply& reply) { return reply.str ? std::string(reply.str, reply.len) : ""; }

bool is_array(const redisReply& reply, std::size_t least) {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements >= least;
}

}  // namespace

RedisDialer::RedisDialer(asio::io_context& io, RedisAddress address, std::chrono::milliseconds patience)
    : io_(io), address_(std::move(address)), patience_(patience), timer_(io) {}

void RedisDialer::dial(Events events) {
  drop();
  events_ = std::make_shared<Events>(std::move(events));
  if (!address_.sentinels.empty()) {
    asked_ = 0;
    ask();
    return;
  }
  auto connection = std::make_unique<RedisConnection>(
      io_, address_, [events = events_](const std::string& why) { events->ended(why); });
  greet(*connection);
  events_->connected(std::move(connection));
}

void RedisDialer::drop() {
  trying_.reset();
  timer_.cancel();
}

void RedisDialer::greet(RedisConnection& connection) {
  auto accepted = [events = events_](const char* step) {
    return [events, step](const redisReply& reply) {
      if (reply.type != REDIS_REPLY_ERROR) return;
      events->refused(std::string(step) + " was refused: " + text_of(reply));
    };
  };
  if (auto words = address_.greeting(); !words.empty()) connection.command(words, accepted("the password"));
  if (address_.db != 0) connection.command({"SELECT", std::to_string(address_.db)}, accepted("the database"));
}

void RedisDialer::ask() {
  const auto& sentinel = address_.sentinels[(first_ + asked_) % address_.sentinels.size()];
  RedisAddress at;
  at.host = sentinel.host;
  at.port = sentinel.port;
  at.password = address_.sentinel_password;
  std::string name = "sentinel " + sentinel.host + ":" + std::to_string(sentinel.port);
  trying_ = std::make_unique<RedisConnection>(
      io_, at, [this, name](const std::string& why) { next(name + ": " + why); });
  if (!at.password.empty())
    trying_->command(at.greeting(), [](const redisReply&) {});  // told by what follows
  trying_->command(
      {"SENTINEL", "get-master-addr-by-name", address_.master}, [this, name](const redisReply& reply) {
        if (is_array(reply, 2)) return try_master(text_of(*reply.element[0]), text_of(*reply.element[1]));
        next(name + (reply.type == REDIS_REPLY_ERROR ? ": " + text_of(reply)
                                                     : " does not know a master " + address_.master));
      });
  arm([this, name] { next(name + " does not answer"); });
}

void RedisDialer::next(const std::string& why) {
  if (++asked_ >= address_.sentinels.size()) return fail("no sentinel names a master; " + why);
  ask();
}

void RedisDialer::fail(const std::string& why) {
  drop();
  // The next attempt begins with another sentinel: this one may be cut off from the others.
  first_ = (first_ + 1) % address_.sentinels.size();
  auto events = events_;
  events->ended(why);
}

void RedisDialer::try_master(const std::string& host, const std::string& port) {
  RedisAddress at = address_;
  at.host = host;
  std::from_chars(port.data(), port.data() + port.size(), at.port);
  std::string name = "the master " + host + ":" + port;
  auto connected = std::make_shared<bool>(false);
  trying_ = std::make_unique<RedisConnection>(
      io_, at, [this, name, connected, events = events_](const std::string& why) {
        if (*connected)
          events->ended(name + ": " + why);
        else
          fail(name + ": " + why);
      });
  arm([this, name] { fail(name + " does not answer"); });
  greet(*trying_);
  trying_->command({"ROLE"}, [this, name, connected](const redisReply& reply) {
    std::string role = is_array(reply, 1) ? text_of(*reply.element[0]) : text_of(reply);
    if (role != "master") return fail(name + " is none, it says: " + role);
    timer_.cancel();
    *connected = true;
    auto events = events_;
    events->connected(std::move(trying_));
  });
}

void RedisDialer::arm(std::function<void()> late) {
  timer_.expires_after(patience_);
  timer_.async_wait([this, alive = std::weak_ptr(alive_), late = std::move(late)](asio::error_code bad) {
    if (!bad && !alive.expired() && trying_ && timer_.expiry() <= asio::steady_timer::clock_type::now())
      late();
  });
}

}  // namespace troupe::gcs
