#include "gcs/store/redis_store.h"

#include <hiredis/hiredis.h>
#include <signal.h>

#include <algorithm>
#include <asio/post.hpp>
#include <random>

#include "core/base/log.h"

namespace troupe::gcs {
namespace {

// KEYS: token, number. ARGV: owner, token, number of the newest acknowledged batch, number of this claim.
// Gives {verdict, number}. The first claim (no number acknowledged) takes the store over; its number is the
// time in microseconds, so that a later owner's numbers are greater, also in a store that lost its end.
constexpr const char* kClaim =
    "local held = redis.call('GET', KEYS[1]) "
    "local at = tonumber(redis.call('GET', KEYS[2]) or '0') "
    "local number = tonumber(ARGV[4]) "
    "if ARGV[3] == '0' then "
    "  local now = redis.call('TIME') "
    "  number = math.max(at + 1, now[1] * 1000000 + now[2]) "
    "elseif not held then return {-1, 0} "
    "elseif at < tonumber(ARGV[3]) then "
    "  redis.call('SET', KEYS[1], ARGV[2]) return {-2, 0} "
    "elseif string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return {0, 0} end "
    "redis.call('SET', KEYS[1], ARGV[2]) "
    "redis.call('SET', KEYS[2], string.format('%.0f', number)) return {1, number}";

// KEYS: token, number. ARGV: token, number (0: stays), then hash, field, "s" (set), "d" (delete) or "x" (the
// whole hash), value for each.
constexpr const char* kWrite =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "for i = 3, #ARGV, 4 do "
    "  if ARGV[i + 2] == 's' then redis.call('HSET', ARGV[i], ARGV[i + 1], ARGV[i + 3]) "
    "  elseif ARGV[i + 2] == 'd' then redis.call('HDEL', ARGV[i], ARGV[i + 1]) "
    "  else redis.call('DEL', ARGV[i]) end "
    "end "
    "if ARGV[2] ~= '0' then redis.call('SET', KEYS[2], ARGV[2]) end return 1";

constexpr std::chrono::seconds kSlow{2};  // without an answer: people are told
constexpr std::size_t kChunk = 10'000;    // writes of one script when everything is written anew

std::string text_of(const redisReply& reply) { return reply.str ? std::string(reply.str, reply.len) : ""; }

// Of a number or an array of numbers.
std::optional<std::vector<long long>> numbers_of(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_INTEGER) return std::vector<long long>{reply.integer};
  if (reply.type != REDIS_REPLY_ARRAY) return std::nullopt;
  std::vector<long long> all;
  for (std::size_t i = 0; i < reply.elements; ++i) {
    if (reply.element[i]->type != REDIS_REPLY_INTEGER) return std::nullopt;
    all.push_back(reply.element[i]->integer);
  }
  return all;
}

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
      dialer_(io, address_),
      retry_(options_.first_retry),
      retry_timer_(io),
      deadline_timer_(io),
      silence_timer_(io) {
  signal(SIGPIPE, SIG_IGN);  // hiredis writes to sockets whose other end may be gone
  connect();
}

RedisStore::~RedisStore() = default;

void RedisStore::connect() {
  if (fenced_) return;
  ++generation_;
  dialer_.dial({[this](std::unique_ptr<RedisConnection> made) {
                  connection_ = std::move(made);
                  claim();
                },
                [this](const std::string& why) { lost(why); },
                [this](const std::string& why) {
                  if (loading_) finish_load(Error(ErrorKind::unauthenticated, address_.shown() + ": " + why));
                  lost(why);
                }});
}

void RedisStore::confirmed(const std::vector<std::string>& words, std::function<void(const Numbers&)> done) {
  expect_answer();
  auto numbers = std::make_shared<Numbers>();
  connection_->command(words, [this, numbers, done](const redisReply& reply) {
    auto found = numbers_of(reply);
    if (!found) {  // loading, full, read-only, no master any more: try again
      std::string why = text_of(reply);
      return lost(why.empty() ? "it gave an answer that makes no sense" : why);
    }
    *numbers = std::move(*found);
    if (address_.replicas > 0) return;
    silence_timer_.cancel();
    done(*numbers);
  });
  if (address_.replicas == 0) return;
  auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(silence() / 2);
  connection_->command({"WAIT", std::to_string(address_.replicas), std::to_string(patience.count())},
                       [this, numbers, done](const redisReply& reply) {
                         if (reply.type != REDIS_REPLY_INTEGER) return lost(text_of(reply));
                         if (reply.integer < address_.replicas) {
                           return lost(std::to_string(reply.integer) + " of the " +
                                       std::to_string(address_.replicas) +
                                       " replicas that must hold a write have confirmed it");
                         }
                         silence_timer_.cancel();
                         done(*numbers);
                       });
}

std::chrono::milliseconds RedisStore::silence() const {
  return address_.sentinels.empty() ? options_.silence : options_.master_silence;
}

void RedisStore::expect_answer() {
  sent_ = Clock::now();
  silence_timer_.expires_after(silence());
  silence_timer_.async_wait([this, alive = std::weak_ptr(alive_)](asio::error_code bad) {
    if (!bad && !alive.expired() && silence_timer_.expiry() <= Clock::now()) lost("it does not answer");
  });
}

void RedisStore::claim() {
  token_ = owner_ + std::to_string(generation_);
  confirmed({"EVAL", kClaim, "2", key("owner"), key("commit"), owner_, token_, std::to_string(acknowledged_),
             std::to_string(++number_)},
            [this](const Numbers& reply) {
              if (reply.size() != 2) return lost("it gave an answer that makes no sense");
              claimed(reply[0], static_cast<std::uint64_t>(reply[1]));
            });
}

void RedisStore::claimed(long long verdict, std::uint64_t number) {
  if (verdict == 0) return replaced();
  if (verdict == -1)
    return fence("the store " + address_.shown() + " was emptied while the head was running");
  if (verdict == -2) return write_anew();
  number_ = std::max(number_, number);
  acknowledged_ = number;
  ready();
}

void RedisStore::replaced() { fence("another head has taken over the store " + address_.shown()); }

void RedisStore::ready() {
  ready_ = true;
  retry_ = options_.first_retry;
  pump_load();
  pump();
}

// As one transaction, so that nobody finds half of it.
void RedisStore::write_anew() {
  if (!whole_) {  // nothing is known yet: what is there is what there is
    acknowledged_ = 0;
    return claim();
  }
  std::optional<Batch> all = whole_();
  if (!all) return lost("it is older than what the head knows");
  log(Level::warning, "the store " + address_.shown() +
                          " has lost the end of what was acknowledged; all records are written anew");
  for (Waiting& one : waiting_)
    std::erase_if(one.batch, [](const Write& write) { return write.table != StoreTable::journals; });
  std::vector<std::string> clear{"DEL"};
  for (StoreTable table : {StoreTable::nodes, StoreTable::jobs, StoreTable::actors, StoreTable::counters})
    clear.push_back(key(to_string(table)));
  auto ignore = [](const redisReply&) {};  // told by what follows
  std::uint64_t number = ++number_;
  connection_->command({"MULTI"}, ignore);
  connection_->command(clear, ignore);
  for (std::size_t at = 0; at < all->size(); at += kChunk) {
    const Write* begin = all->data() + at;
    connection_->command(script(begin, begin + std::min(kChunk, all->size() - at), 0), ignore);
  }
  connection_->command(script(nullptr, nullptr, number), ignore);
  confirmed({"EXEC"}, [this, number](const Numbers& replies) {
    if (replies.empty() || replies.back() == 0) return replaced();
    acknowledged_ = number;
    ready();
  });
}

void RedisStore::lost(const std::string& why) {
  if (fenced_ || pausing_) return;
  trouble_ = why;
  if (ready_) away_since_ = Clock::now();
  ready_ = false;
  in_flight_ = false;
  load_sent_ = false;
  pausing_ = true;
  connection_.reset();
  dialer_.drop();
  silence_timer_.cancel();
  retry_timer_.expires_after(retry_);
  retry_ = std::min(retry_ * 2, options_.slowest_retry);
  retry_timer_.async_wait([this, alive = std::weak_ptr(alive_)](asio::error_code bad) {
    if (bad || alive.expired()) return;
    pausing_ = false;
    connect();
  });
}

void RedisStore::fence(const std::string& why) {
  fenced_ = true;
  ready_ = false;
  in_flight_ = false;
  trouble_ = why;
  connection_.reset();
  silence_timer_.cancel();
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

std::vector<std::string> RedisStore::script(const Write* begin, const Write* end,
                                            std::uint64_t number) const {
  std::vector<std::string> words{
      "EVAL", kWrite, "2", key("owner"), key("commit"), token_, std::to_string(number)};
  for (const Write* write = begin; write != end; ++write) {
    auto slash = write->table == StoreTable::journals ? write->key.find('/') : write->key.npos;
    bool whole = slash != write->key.npos && slash + 1 == write->key.size();
    words.push_back(slash == write->key.npos ? key(to_string(write->table))
                                             : key("journal:") + write->key.substr(0, slash));
    words.push_back(slash == write->key.npos ? write->key : write->key.substr(slash + 1));
    words.push_back(write->value ? "s" : whole ? "x" : "d");
    words.push_back(write->value ? *write->value : "");
  }
  return words;
}

void RedisStore::pump() {
  if (!ready_ || in_flight_ || waiting_.empty()) return;
  in_flight_ = true;
  const Batch& batch = waiting_.front().batch;
  std::uint64_t number = batch.empty() ? 0 : ++number_;  // one that only looks changes nothing
  confirmed(script(batch.data(), batch.data() + batch.size(), number), [this, number](const Numbers& reply) {
    if (reply.size() != 1 || reply[0] == 0) return replaced();
    answered(number);
  });
}

void RedisStore::answered(std::uint64_t number) {
  acknowledged_ = std::max(acknowledged_, number);
  in_flight_ = false;
  Written done = std::move(waiting_.front().done);
  waiting_.pop_front();
  pump();
  arm();
  done({});
}

Error RedisStore::unconfirmed(const std::string& what) const {
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
  Error error = unconfirmed("the store did not confirm a write");
  bool silent = ready_;
  std::vector<Written> failed;
  while (!waiting_.empty() && waiting_.front().deadline <= now) {
    failed.push_back(std::move(waiting_.front().done));
    waiting_.pop_front();
  }
  bool load_failed = loading_ && load_deadline_ <= now;
  if (silent && (!failed.empty() || load_failed)) lost("it did not answer in time");
  arm();
  if (load_failed) finish_load(unconfirmed("the store could not be read"));
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
    done(unconfirmed("a journal could not be read"));
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

std::optional<std::chrono::milliseconds> RedisStore::away() const {
  auto since = away_since_;
  if (ready_ && !fenced_) {
    // One that hangs is away before it is given up.
    if (!in_flight_ || Clock::now() - sent_ < kSlow) return std::nullopt;
    since = sent_;
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
}

std::string RedisStore::state() const {
  if (fenced_) return "fenced: " + trouble_;
  auto long_since = away();
  if (!long_since) return "ready (" + address_.shown() + ")";
  return "away for " + std::to_string(long_since->count() / 1000) + " s (" + address_.shown() +
         "): " + (ready_ ? "it does not answer" : trouble_);
}

}  // namespace troupe::gcs
