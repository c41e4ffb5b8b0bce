// The head's records in Redis: one hash for each table, a batch as one atomic script checked against a token.
//
// The token says who owns the store. Every connection brings a new one, so a late batch of an old connection,
// or of a head that was replaced, is refused. A head that finds another owner is fenced: all its writes fail
// from then on. Each claim and batch has a number, greater than all before, which lies in the store: a store
// that shows a smaller one than was acknowledged has lost the end and is written anew, from the owner's
// memory. Where replicas are asked for, nothing is acknowledged before so many of them hold it.
//
// While Redis is away writes wait, bounded in number and time, then fail as unavailable; it is looked for
// with a back-off for as long as the object lives. A connection that does not answer within the bound is
// given up.
//
// Owner: the head command. Thread: that of the io_context, which outlives it. Ignores SIGPIPE for the
// process.
#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include <asio/steady_timer.hpp>

#include "gcs/store/redis_dialer.h"
#include "gcs/store/store.h"

namespace troupe::gcs {

class RedisStore : public Store {
 public:
  struct Options {
    std::size_t most_waiting = 1000;  // batches
    std::chrono::milliseconds timeout{10'000};
    std::chrono::milliseconds first_retry{20};
    std::chrono::milliseconds slowest_retry{2'000};
    std::chrono::milliseconds silence{10'000};        // of a server: then the connection is given up
    std::chrono::milliseconds master_silence{3'000};  // of one that may have been replaced
    std::string prefix = "troupe:";
  };

  RedisStore(asio::io_context& io, RedisAddress address, Options options);
  RedisStore(asio::io_context& io, RedisAddress address) : RedisStore(io, std::move(address), Options{}) {}
  ~RedisStore() override;

  void load(Loaded done) override;
  void read_journal(const std::string& actor, Found done) override;
  void write(Batch batch, Written done) override;
  std::string state() const override;
  std::optional<std::chrono::milliseconds> away() const override;
  bool fenced() const override { return fenced_; }
  void on_older(Whole whole) override { whole_ = std::move(whole); }
  std::uint64_t connections() const { return generation_; }  // made so far

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Batch batch;
    Written done;
    Clock::time_point deadline;
  };

  void connect();
  void claim();
  void claimed(long long verdict, std::uint64_t number);
  void write_anew();
  void ready();
  void lost(const std::string& why);
  // `done` gets the numbers of the reply when enough replicas hold what this connection has written. Any
  // other reply means that the connection is of no use.
  using Numbers = std::vector<long long>;
  void confirmed(const std::vector<std::string>& words, std::function<void(const Numbers&)> done);
  void expect_answer();
  std::chrono::milliseconds silence() const;
  void pump();
  void pump_load();
  void load_table(std::size_t table);
  void answered(std::uint64_t number);
  void replaced();
  void fence(const std::string& why);
  void arm();
  void expire();
  void finish_load(Result<Tables> result);
  std::vector<std::string> script(const Write* begin, const Write* end, std::uint64_t number) const;
  std::string key(const char* name) const { return options_.prefix + name; }
  Error unconfirmed(const std::string& what) const;

  asio::io_context& io_;
  RedisAddress address_;
  Options options_;
  std::string owner_;  // random
  std::string token_;
  std::uint64_t number_ = 0;        // of the newest claim or batch that was sent
  std::uint64_t acknowledged_ = 0;  // of the newest that is durable
  Whole whole_;
  RedisDialer dialer_;
  std::unique_ptr<RedisConnection> connection_;
  std::uint64_t generation_ = 0;
  bool ready_ = false;
  bool fenced_ = false;
  bool in_flight_ = false;
  bool pausing_ = false;    // before the next attempt to connect
  Clock::time_point sent_;  // what is in flight
  std::string trouble_ = "not connected yet";
  Clock::time_point away_since_ = Clock::now();
  std::chrono::milliseconds retry_;
  asio::steady_timer retry_timer_;
  asio::steady_timer deadline_timer_;
  asio::steady_timer silence_timer_;
  std::deque<Waiting> waiting_;
  Loaded loading_;
  bool load_sent_ = false;
  Tables loaded_;
  Clock::time_point load_deadline_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for posted work
};

}  // namespace troupe::gcs
