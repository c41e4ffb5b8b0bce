// The store against real Redis servers, each in a directory of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "gcs/store/redis_lease.h"
#include "gcs/store/redis_process.h"
#include "gcs/store/redis_store.h"

namespace troupe::gcs {
namespace {

class RedisStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/troupe-redis-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    start();
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  void start() {
    auto server = RedisProcess::start({directory_ + "/state", "redis-server", std::chrono::seconds(60)});
    ASSERT_TRUE(server) << server.error().describe();
    server_ = std::move(*server);
    address_ = server_->address();
  }

  // What redis-cli prints.
  std::string ask(const std::vector<std::string>& words) {
    std::string line = "redis-cli --no-auth-warning -a " + address_.password + " -s " + address_.unix_path;
    for (auto& word : words) line += " '" + word + "'";
    std::unique_ptr<FILE, int (*)(FILE*)> out(::popen(line.c_str(), "r"), ::pclose);
    std::string text;
    for (int c; (c = std::fgetc(out.get())) != EOF;) text += static_cast<char>(c);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  template <class Done>
  void run_until(Done done) {
    io_.restart();
    while (!done()) {
      if (io_.stopped()) io_.restart();
      ASSERT_NE(io_.run_one(), 0u) << "nothing left to wait for";
    }
  }

  Result<void> write(Store& store, Batch batch) {
    std::optional<Result<void>> got;
    store.write(std::move(batch), [&](Result<void> result) { got.emplace(std::move(result)); });
    run_until([&] { return got.has_value(); });
    return std::move(*got);
  }

  std::map<std::string, std::string> load(Store& store, StoreTable table) {
    std::optional<Result<Tables>> got;
    store.load([&](Result<Tables> result) { got.emplace(std::move(result)); });
    run_until([&] { return got.has_value(); });
    std::map<std::string, std::string> all;
    EXPECT_TRUE(*got) << got->error().describe();
    if (!*got) return all;
    for (const Entry& entry : (**got)[static_cast<std::size_t>(table)]) all[entry.key] = entry.value;
    return all;
  }

  std::string directory_;
  std::unique_ptr<RedisProcess> server_;
  RedisAddress address_;
  asio::io_context io_;
};

TEST_F(RedisStoreTest, KeepsJournalsApart) {
  std::string binary("a\0b\r\n", 5);
  RedisStore store(io_, address_);
  auto journal = [&](const std::string& actor) {
    std::optional<Result<std::vector<Entry>>> got;
    store.read_journal(actor, [&](Result<std::vector<Entry>> found) { got.emplace(std::move(found)); });
    run_until([&] { return got.has_value(); });
    std::map<std::string, std::string> all;
    EXPECT_TRUE(*got) << got->error().describe();
    for (const Entry& entry : **got) all[entry.key] = entry.value;
    return all;
  };
  ASSERT_TRUE(write(store, {{StoreTable::journals, "7/1", binary},
                            {StoreTable::journals, "7/5", "five"},
                            {StoreTable::journals, "8/1", "other"}}));
  EXPECT_EQ(journal("7"), (std::map<std::string, std::string>{{"1", binary}, {"5", "five"}}));
  ASSERT_TRUE(write(
      store, {{StoreTable::journals, "7/1", std::nullopt}, {StoreTable::journals, "8/", std::nullopt}}));
  EXPECT_EQ(journal("7"), (std::map<std::string, std::string>{{"5", "five"}}));
  EXPECT_TRUE(journal("8").empty());
  EXPECT_TRUE(load(store, StoreTable::actors).empty());
}

TEST_F(RedisStoreTest, KeepsWhatItAcknowledged) {
  std::string binary("a\0b\r\n", 5);
  {
    RedisStore store(io_, address_);
    ASSERT_TRUE(write(store, {{StoreTable::actors, "1", binary}, {StoreTable::actors, "2", "two"}}));
    ASSERT_TRUE(write(store, {{StoreTable::actors, "2", std::nullopt}, {StoreTable::counters, "0", "7"}}));
  }
  server_->kill();
  start();
  RedisStore store(io_, address_);
  EXPECT_EQ(load(store, StoreTable::actors), (std::map<std::string, std::string>{{"1", binary}}));
  EXPECT_EQ(load(store, StoreTable::counters), (std::map<std::string, std::string>{{"0", "7"}}));
}

TEST_F(RedisStoreTest, PrivateToItsUser) {
  struct stat info {};
  ASSERT_EQ(stat((directory_ + "/state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((directory_ + "/state/redis.conf").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  RedisAddress other = address_;
  other.password = "guess";
  RedisStore store(io_, other);
  std::optional<Result<Tables>> got;
  store.load([&](Result<Tables> result) { got.emplace(std::move(result)); });
  run_until([&] { return got.has_value(); });
  ASSERT_FALSE(*got);
  EXPECT_EQ(got->error().kind, ErrorKind::unauthenticated);
}

// Kills the server again and again while writes go on: each acknowledged one is there in the end, in order
// per key.
TEST_F(RedisStoreTest, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  RedisStore::Options options;
  options.timeout = std::chrono::minutes(5);
  RedisStore store(io_, address_, options);
  int acknowledged = 0, next = 0;
  std::function<void()> send = [&] {
    int n = ++next;
    store.write({{StoreTable::actors, std::to_string(n % 50), std::to_string(n)},
                 {StoreTable::jobs, std::to_string(n), "x"}},
                [&, n](Result<void> result) {
                  ASSERT_TRUE(result) << result.error().describe();
                  ASSERT_EQ(n, acknowledged + 1);
                  acknowledged = n;
                });
  };
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 40; ++i) send();
    int target = acknowledged + 10;
    run_until([&] { return acknowledged >= target; });
    server_->kill();
    ASSERT_TRUE(server_->relaunch());
  }
  int last = next;
  run_until([&] { return acknowledged == last; });
  RedisStore reader(io_, address_);
  auto jobs = load(reader, StoreTable::jobs);
  auto actors = load(reader, StoreTable::actors);
  EXPECT_EQ(jobs.size(), static_cast<std::size_t>(last));
  for (int n = last; n > last - 50; --n) EXPECT_EQ(actors[std::to_string(n % 50)], std::to_string(n));
}

TEST_F(RedisStoreTest, WritesFailWithinTheirBoundWhileTheServerIsStopped) {
  RedisStore::Options options;
  options.timeout = std::chrono::milliseconds(50);
  RedisStore store(io_, address_, options);
  run_until([&] { return store.state().rfind("ready", 0) == 0; });
  ::kill(server_->pid(), SIGSTOP);
  Result<void> result = write(store, {{StoreTable::actors, "1", "old"}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::unavailable);
  ::kill(server_->pid(), SIGCONT);
  // Later writes win over the one that may still have been on its way.
  for (bool done = false; !done;) done = static_cast<bool>(write(store, {{StoreTable::actors, "1", "new"}}));
  RedisStore reader(io_, address_);
  EXPECT_EQ(load(reader, StoreTable::actors)["1"], "new");
}

TEST_F(RedisStoreTest, TooManyWaitingWritesAreRefused) {
  server_->kill();
  RedisStore::Options options;
  options.most_waiting = 3;
  RedisStore store(io_, address_, options);
  std::optional<Result<void>> refused;
  for (int i = 0; i < 4; ++i) {
    store.write({{StoreTable::actors, "1", "x"}}, [&](Result<void> result) {
      if (!result) refused.emplace(std::move(result));
    });
  }
  run_until([&] { return refused.has_value(); });
  EXPECT_EQ(refused->error().kind, ErrorKind::overloaded);
}

TEST_F(RedisStoreTest, ASecondHeadFencesTheFirst) {
  RedisStore first(io_, address_);
  ASSERT_TRUE(write(first, {{StoreTable::actors, "1", "first"}}));
  RedisStore second(io_, address_);
  ASSERT_TRUE(write(second, {{StoreTable::actors, "1", "second"}}));
  Result<void> late = write(first, {{StoreTable::actors, "1", "late"}});
  ASSERT_FALSE(late);
  EXPECT_TRUE(first.fenced());
  EXPECT_FALSE(write(first, {{StoreTable::actors, "1", "later"}}));
  EXPECT_EQ(load(second, StoreTable::actors)["1"], "second");
}

// As after a failover to a replica that had not got all: the owner's memory replaces what is there, once, and
// what waits goes on.
// Of several standbys one takes over; the others see it at once and wait on.
TEST_F(RedisStoreTest, TheLeaseOfADeadHeadIsTakenByOne) {
  int taken = 0;
  RedisLease winner(io_, address_);
  std::vector<std::unique_ptr<RedisLease>> standbys;
  for (int i = 0; i < 5; ++i) {
    standbys.push_back(std::make_unique<RedisLease>(io_, address_));
    standbys.back()->watch([&] {
      if (++taken == 1) winner.keep();
    });
  }
  run_until([&] { return taken > 0; });
  bool over = false;
  asio::steady_timer pause(io_, 2 * RedisLease::kLife);
  pause.async_wait([&](asio::error_code) { over = true; });
  run_until([&] { return over; });
  EXPECT_EQ(taken, 1);
}

TEST_F(RedisStoreTest, AStoreThatLostItsEndIsWrittenAnew) {
  RedisStore::Options options;
  options.timeout = std::chrono::minutes(5);
  RedisStore store(io_, address_, options);
  int asked = 0;
  Batch whole;
  for (int i = 0; i < 25'000; ++i) whole.push_back({StoreTable::actors, std::to_string(i), "whole"});
  whole.push_back({StoreTable::journals, "7/incomplete", "1"});
  store.on_older([&]() -> std::optional<Batch> {
    ++asked;
    return whole;
  });
  ASSERT_TRUE(write(store, {{StoreTable::actors, "kept", "x"}, {StoreTable::nodes, "1", "x"}}));
  std::string number = ask({"GET", "troupe:commit"});
  ASSERT_TRUE(write(store, {{StoreTable::actors, "lost", "x"}, {StoreTable::journals, "7/1", "one"}}));
  ASSERT_NE(ask({"GET", "troupe:commit"}), number);
  ask({"SET", "troupe:commit", number});
  ask({"HDEL", "troupe:actors", "lost"});
  ask({"CLIENT", "KILL", "TYPE", "normal"});
  run_until([&] { return store.connections() == 2; });
  ASSERT_TRUE(write(store, {{StoreTable::actors, "covered", "x"}, {StoreTable::journals, "7/2", "two"}}));
  EXPECT_EQ(asked, 1);
  ASSERT_TRUE(write(store, {{StoreTable::jobs, "1", "later"}}));
  RedisStore reader(io_, address_);
  auto actors = load(reader, StoreTable::actors);
  EXPECT_EQ(actors.size(), 25'000u);
  EXPECT_EQ(actors["24999"], "whole");
  EXPECT_TRUE(load(reader, StoreTable::nodes).empty());
  EXPECT_EQ(load(reader, StoreTable::jobs)["1"], "later");
  EXPECT_EQ(ask({"HKEYS", "troupe:journal:7"}), "1\nincomplete\n2");
  EXPECT_TRUE(store.fenced() || !write(store, {}));  // by the reader, which is a later owner
}

// A later owner's numbers are greater, also in a store that has lost the end.
TEST_F(RedisStoreTest, AnotherOwnerIsNotTakenForAStoreThatLostItsEnd) {
  RedisStore first(io_, address_);
  first.on_older([]() -> std::optional<Batch> { return Batch{}; });
  std::string number = ask({"GET", "troupe:commit"});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(write(first, {{StoreTable::actors, "1", "first"}}));
  ask({"SET", "troupe:commit", "17"});
  RedisStore second(io_, address_);
  ASSERT_TRUE(write(second, {{StoreTable::actors, "1", "second"}}));
  ask({"CLIENT", "KILL", "TYPE", "normal"});
  run_until([&] { return first.fenced(); });
  EXPECT_NE(first.state().find("another head"), std::string::npos) << first.state();
  ASSERT_TRUE(write(second, {{StoreTable::actors, "2", "second"}}));
  EXPECT_EQ(load(second, StoreTable::actors)["1"], "second");
}

TEST_F(RedisStoreTest, NothingIsAcknowledgedThatNoReplicaHolds) {
  RedisAddress replicated = address_;
  replicated.replicas = 1;
  RedisStore::Options options;
  options.timeout = std::chrono::milliseconds(300);
  options.silence = std::chrono::milliseconds(200);
  RedisStore store(io_, replicated, options);
  Result<void> result = write(store, {{StoreTable::actors, "1", "x"}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::unavailable);
  run_until([&] { return store.state().find("0 of the 1 replicas") != std::string::npos; });
  EXPECT_TRUE(store.away());
}

TEST(RedisProcess, SaysWhatToDoWhenTheServerIsMissing) {
  auto server = RedisProcess::start({"/tmp/troupe-never-made", "redis-server-that-is-not-there", {}});
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("apt-get install redis-server"), std::string::npos);
}

TEST(RedisProcess, SaysWhatHappenedWhenItEndsAtOnce) {
  char name[] = "/tmp/troupe-redis-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  auto server = RedisProcess::start({name, "/bin/false", std::chrono::seconds(60)});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().kind, ErrorKind::unavailable);
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace troupe::gcs
