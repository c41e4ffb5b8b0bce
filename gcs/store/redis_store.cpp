#include "gcs/store/redis_store.h"

#include <hiredis/hiredis.h>
#include <signal.h>

#include <algorithm>
#include <asio/post.hpp>
#include <random>

namespace troupe::gcs {
namespace {

// KEYS: token. ARGV: owner, token, "1" when the store was ours before. The first claim takes the store over.
constexpr const char* kClaim =
    "local held = redis.call('GET', KEYS[1]) "
    "if ARGV[3] == '1' then "
    "  if not held then return -1 end "
    "  if string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end "
    "end "
    "redis.call('SET', KEYS[1], ARGV[2]) return 1";

// KEYS: token. ARGV: token, then hash, field, "s" (set), "d" (delete) or "x" (the whole hash), value for
// each.
constexpr const char* kWrite =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "for i = 2, #ARGV, 4 do "
    "  if ARGV[i + 2] == 's' then redis.call('HSET', ARGV[i], ARGV[i + 1], ARGV[i + 3]) "
    "  elseif ARGV[i + 2] == 'd' then redis.call('HDEL', ARGV[i], ARGV[i + 1]) "
    "  else redis.call('DEL', ARGV[i]) end "
    "end return 1";

std::string text_of(const redisReply& reply) { return reply.str ? std::string(reply.str, reply.len) : ""; }

std::string random_owner() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 4; ++i) text += std::to_string(device()) + "-";
  return text;
}

}  // namespace

RedisStore::RedisStore(asio::io_context& io, RedisAddress address, Options options)
    : io_(io),
      address_(std::move(address)),
      options_(std::move(options)),
      owner_(random_owner()),
      retry_(options_.first_retry),
      retry_timer_(io),
      deadline_timer_(io) {
  signal(SIGPIPE, SIG_IGN);  // hiredis writes to sockets whose other end may be gone
  connect();
}

RedisStore::~RedisStore() = default;

void RedisStore::connect() {
  if (fenced_) return;
  ++generation_;
  in_flight_ = false;
  load_sent_ = false;
  connection_ =
      std::make_unique<RedisConnection>(io_, address_, [this](const std::string& why) { lost(why); });
  greet();
}

void RedisStore::greet() {
  auto accepted = [this](const char* step) {
    return [this, step](const redisReply& reply) {
      if (reply.type != REDIS_REPLY_ERROR) return;
      std::string why = std::string(step) + " was refused: " + text_of(reply);
      if (loading_) finish_load(Error(ErrorKind::unauthenticated, address_.shown() + ": " + why));
      lost(why);
    };
  };
  if (!address_.password.empty()) connection_->command({"AUTH", address_.password}, accepted("the password"));
  if (address_.db != 0)
    connection_->command({"SELECT", std::to_string(address_.db)}, accepted("the database"));
  claim();
}

void RedisStore::claim() {
  token_ = owner_ + std::to_string(generation_);
  connection_->command({"EVAL", kClaim, "1", key("owner"), owner_, token_, claimed_once_ ? "1" : "0"},
                       [this](const redisReply& reply) {
                         if (reply.type == REDIS_REPLY_INTEGER) return claimed(reply.integer);
                         lost(text_of(reply));
                       });
}

void RedisStore::claimed(long long verdict) {
  if (verdict == 0) return fence("another head has taken over the store " + address_.shown());
  if (verdict < 0) return fence("the store " + address_.shown() + " was emptied while the head was running");
  ready_ = true;
  claimed_once_ = true;
  retry_ = options_.first_retry;
  pump_load();
  pump();
}

void RedisStore::lost(const std::string& why) {
  if (fenced_ || !connection_) return;
  trouble_ = why;
  if (ready_) away_since_ = Clock::now();
  ready_ = false;
  in_flight_ = false;
  load_sent_ = false;
  connection_.reset();
  retry_timer_.expires_after(retry_);
  retry_ = std::min(retry_ * 2, options_.slowest_retry);
  retry_timer_.async_wait([this, alive = std::weak_ptr(alive_)](asio::error_code bad) {
    if (!bad && !alive.expired()) connect();
  });
}

void RedisStore::fence(const std::string& why) {
  fenced_ = true;
  ready_ = false;
  in_flight_ = false;
  trouble_ = why;
  connection_.reset();
  if (loading_) finish_load(Error(ErrorKind::cancelled, why));
  for (auto all = std::move(waiting_); auto& one : all) one.done(Error(ErrorKind::cancelled, why));
}

void RedisStore::write(Batch batch, Written done) {
  if (fenced_ || waiting_.size() >= options_.most_waiting) {
    Error error = fenced_ ? Error(ErrorKind::cancelled, trouble_)
                          : Error(ErrorKind::overloaded, "too many writes wait for " + address_.shown());
    asio::post(io_, [done = std::move(done), error] { done(error); });
    return;
  }
  waiting_.push_back({std::move(batch), std::move(done), Clock::now() + options_.timeout});
  pump();
  arm();
}

void RedisStore::pump() {
  if (!ready_ || in_flight_ || waiting_.empty()) return;
  in_flight_ = true;
  std::vector<std::string> words{"EVAL", kWrite, "1", key("owner"), token_};
  for (const Write& write : waiting_.front().batch) {
    auto slash = write.table == StoreTable::journals ? write.key.find('/') : write.key.npos;
    bool whole = slash != write.key.npos && slash + 1 == write.key.size();
    words.push_back(slash == write.key.npos ? key(to_string(write.table))
                                            : key("journal:") + write.key.substr(0, slash));
    words.push_back(slash == write.key.npos ? write.key : write.key.substr(slash + 1));
    words.push_back(write.value ? "s" : whole ? "x" : "d");
    words.push_back(write.value ? *write.value : "");
  }
  connection_->command(words, [this](const redisReply& reply) { answered(reply); });
}

void RedisStore::answered(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_INTEGER) return lost(text_of(reply));  // loading, full, read-only: try again
  if (reply.integer == 0) return fence("another head has taken over the store " + address_.shown());
  in_flight_ = false;
  Written done = std::move(waiting_.front().done);
  waiting_.pop_front();
  pump();
  arm();
  done({});
}

Error RedisStore::away(const std::string& what) const {
  return Error(ErrorKind::unavailable, what + " within " +
                                           std::to_string(options_.timeout.count() / 1000.0).substr(0, 5) +
                                           " s: Redis at " + address_.shown() + " " +
                                           (ready_ ? "does not answer" : "is away: " + trouble_));
}

void RedisStore::arm() {
  if (waiting_.empty() && !loading_) {
    deadline_timer_.cancel();
    return;
  }
  Clock::time_point next = loading_ ? load_deadline_ : waiting_.front().deadline;
  if (loading_ && !waiting_.empty()) next = std::min(next, waiting_.front().deadline);
  deadline_timer_.expires_at(next);
  deadline_timer_.async_wait([this, alive = std::weak_ptr(alive_)](asio::error_code bad) {
    if (!bad && !alive.expired()) expire();
  });
}

void RedisStore::expire() {
  Clock::time_point now = Clock::now();
  Error error = away("the store did not confirm a write");
  bool silent = ready_;
  std::vector<Written> failed;
  while (!waiting_.empty() && waiting_.front().deadline <= now) {
    failed.push_back(std::move(waiting_.front().done));
    waiting_.pop_front();
  }
  bool load_failed = loading_ && load_deadline_ <= now;
  if (silent && (!failed.empty() || load_failed)) lost("it did not answer in time");
  arm();
  if (load_failed) finish_load(away("the store could not be read"));
  for (Written& done : failed) done(error);
}

void RedisStore::load(Loaded done) {
  loading_ = std::move(done);
  load_deadline_ = Clock::now() + options_.timeout;
  loaded_ = {};
  arm();
  pump_load();
}

void RedisStore::pump_load() {
  if (!ready_ || !loading_ || load_sent_) return;
  load_sent_ = true;
  for (std::size_t i = 0; i < kStoreTables; ++i) load_table(i);
}

void RedisStore::load_table(std::size_t table) {
  const char* name = to_string(static_cast<StoreTable>(table));
  connection_->command({"HGETALL", key(name)}, [this, table](const redisReply& reply) {
    if (!loading_) return;
    if (reply.type != REDIS_REPLY_ARRAY) return lost(text_of(reply));
    auto& entries = loaded_[table];
    entries.clear();
    for (std::size_t i = 0; i + 1 < reply.elements; i += 2) {
      entries.push_back({text_of(*reply.element[i]), text_of(*reply.element[i + 1])});
    }
    if (table + 1 == kStoreTables) finish_load(std::move(loaded_));
  });
}

void RedisStore::read_journal(const std::string& actor, Found done) {
  if (!ready_) {
    done(away("a journal could not be read"));
    return;
  }
  // A connection that ends says nothing to those who wait: whoever asked hears of it when this is let go.
  struct Answer {
    Found done;
    bool given = false;
    ~Answer() {
      if (!given)
        done(Error(ErrorKind::unavailable, "the connection to Redis ended while a journal was read"));
    }
  };
  auto answer = std::make_shared<Answer>();
  answer->done = std::move(done);
  connection_->command({"HGETALL", key("journal:") + actor}, [answer](const redisReply& reply) {
    answer->given = true;
    if (reply.type != REDIS_REPLY_ARRAY) {
      answer->done(Error(ErrorKind::unavailable, "Redis refused to read a journal: " + text_of(reply)));
      return;
    }
    std::vector<Entry> found;
    for (std::size_t i = 0; i + 1 < reply.elements; i += 2) {
      found.push_back({text_of(*reply.element[i]), text_of(*reply.element[i + 1])});
    }
    answer->done(std::move(found));
  });
}

void RedisStore::finish_load(Result<Tables> result) {
  Loaded done = std::move(loading_);
  load_sent_ = false;
  loading_ = nullptr;
  arm();
  if (done) done(std::move(result));
}

std::string RedisStore::state() const {
  if (fenced_) return "fenced: " + trouble_;
  if (ready_) return "ready (" + address_.shown() + ")";
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - away_since_).count();
  return "away for " + std::to_string(seconds) + " s (" + address_.shown() + "): " + trouble_;
}

}  // namespace troupe::gcs
