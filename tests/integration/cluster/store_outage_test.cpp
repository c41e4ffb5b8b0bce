// The control store fails while programs run: what was acknowledged stays, calls and listings go on, changes
// wait or fail clearly.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "redis_servers.h"

namespace troupe::test {
namespace {

// For machines that do much else. Where a node must not be lost the store is away for longer.
constexpr const char* kHeartbeat = "4000";
constexpr int kLongAway = 6;  // seconds

class StoreOutage : public ::testing::Test {
 protected:
  void start_head(const std::string& url) {
    std::vector<std::string> words{bin("troupe"), "head", "--grace", "20", "--heartbeat-timeout", kHeartbeat};
    if (!url.empty()) words.insert(words.end(), {"--redis", url});
    head_ = scene_.start(words);
    ASSERT_TRUE(head_.wait_for("listening on", 120)) << "head: " << head_.seen;
  }
  void kill_head() {
    ::kill(head_.pid, SIGKILL);
    head_.finish();
  }
  void start_load(const std::string& name, const std::string& ready) {
    node_ = scene_.start({bin("troupe"), "node", "--name", "n1", "--cpus", "8"});
    ASSERT_TRUE(node_.wait_for("node: joined")) << node_.seen;
    driver_ = scene_.start({bin("probe"), name});
    ASSERT_TRUE(driver_.wait_for("probe: " + ready, 120)) << driver_.seen << "\nhead: " << words_of(head_);
  }
  // Sends a line to the driver and waits for its answer.
  void ask(const std::string& what, const std::string& answer, int seconds = 120) {
    driver_.seen.clear();
    if (!what.empty()) driver_.write(what + "\n");
    ASSERT_TRUE(driver_.wait_for("probe: " + answer, seconds))
        << what << ": " << driver_.seen << "\nhead: " << words_of(head_);
    driver_.wait_for("\n", 5);
  }
  std::string words_of(Scene::Process& process) {
    process.wait_for("this never comes", 1);
    return process.seen;
  }
  void expect_head_lives() { EXPECT_EQ(::waitpid(head_.pid, nullptr, WNOHANG), 0) << words_of(head_); }
  std::string status(bool json = false) {
    std::vector<std::string> words{bin("troupe"), "status"};
    if (json) words.push_back("--json");
    auto outcome = scene_.run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return outcome.output;
  }
  // Seconds; -1: it is not.
  int store_away() {
    std::string seen = status();
    auto at = seen.find("store away for ");
    return at == seen.npos ? -1 : std::atoi(seen.c_str() + at + 15);
  }
  void expect_no_node_was_lost() {
    auto list = scene_.run({bin("troupe"), "list", "nodes"});
    EXPECT_EQ(list.status, 0) << list.output;
    EXPECT_NE(list.output.find("alive"), list.output.npos) << list.output;
    EXPECT_EQ(list.output.find("gone"), list.output.npos) << list.output;
  }
  void end() {
    driver_.write("end\n");
    auto outcome = driver_.finish(120);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    std::printf("%s", outcome.output.c_str());
  }

  Scene scene_;
  Scene::Process head_, node_, driver_;
};

// A head on what the sentinels name as the master; a new head on what was promoted.
class Failover : public StoreOutage {
 protected:
  void SetUp() override {
    group_ = std::make_unique<RedisGroup>(scene_);
    ASSERT_FALSE(HasFailure());
    start_head(group_->url(1));
    start_load("mutate", "mutating");
    ask("spawns", "spawns go on");
  }
  void all_is_well_after(RedisServer& old) {
    ask("calls", "calls go on");
    ASSERT_TRUE(group_->failed_over_from(old));
    ask("spawns", "spawns go on");
    expect_head_lives();
    EXPECT_NE(status().find("ready (redis+sentinel://"), std::string::npos) << status();
    ask("check", "all ");
    // From the promoted store.
    kill_head();
    start_head(group_->url(1));
    ask("spawns", "spawns go on");
    ask("check", "all ");
    expect_no_node_was_lost();
  }
  std::unique_ptr<RedisGroup> group_;
};

TEST_F(Failover, OfAKilledMasterLosesNothingAcknowledged) {
  RedisServer& old = group_->master();
  ask("fast", "fast");
  ask("spawns", "spawns go on");
  old.kill();
  ask("slow", "slow");
  status();
  all_is_well_after(old);
  end();
}

// It comes back as a master that has not heard of its end.
TEST_F(Failover, OfAStoppedMasterThatComesBack) {
  RedisServer& old = group_->master();
  ask("fast", "fast");
  ask("spawns", "spawns go on");
  old.stop();
  ask("slow", "slow");
  status();
  all_is_well_after(old);
  old.go_on();
  ask("spawns", "spawns go on");
  EXPECT_TRUE(eventually([&] { return old.ask({"ROLE"}).rfind("slave", 0) == 0; }, 120)) << old.ask({"ROLE"});
  ask("spawns", "spawns go on");
  ask("check", "all ");
  end();
}

// What no replica holds is not acknowledged, and goes through when one is there.
TEST_F(Failover, WithoutReplicasNothingIsAcknowledged) {
  RedisServer& master = group_->master();
  for (auto& one : group_->servers)
    if (one.get() != &master) one->stop();
  ask("calls", "calls go on");
  EXPECT_TRUE(eventually([&] { return status().find("of the 1 replicas") != std::string::npos; }, 120))
      << status();
  driver_.seen.clear();
  driver_.write("try\n");
  ask("", "tried: unavailable", 180);
  for (auto& one : group_->servers)
    if (one.get() != &master) one->go_on();
  ask("spawns", "spawns go on");
  ask("check", "all ");
  end();
}

// A failover of Redis is not the end of the active head; its death is seen in the promoted Redis.
TEST_F(Failover, OfRedisIsNoneOfTheHead) {
  auto standby =
      scene_.start({bin("troupe"), "head", "--standby", "--grace", "20", "--heartbeat-timeout", kHeartbeat,
                    "--redis", group_->url(1), "--state", scene_.folder() + "/standby"});
  ASSERT_TRUE(standby.wait_for("standing by")) << standby.seen;
  RedisServer& old = group_->master();
  old.kill();
  ASSERT_TRUE(group_->failed_over_from(old));
  ask("spawns", "spawns go on");
  ask("spawns", "spawns go on");
  expect_head_lives();
  kill_head();
  ASSERT_TRUE(standby.wait_for("listening on", 120)) << standby.seen;
  ask("spawns", "spawns go on");
  ask("check", "all ");
  end();
}

class RedisAway : public StoreOutage {
 protected:
  void SetUp() override {
    redis_ = std::make_unique<RedisServer>(scene_, "redis");
    start_head(redis_->url());
    start_load("mutate", "mutating");
    ask("spawns", "spawns go on");
  }
  std::unique_ptr<RedisServer> redis_;
};

// Away for as long as a spawn takes to be given up; OUTAGE_SECONDS makes it longer, by hand.
TEST_F(RedisAway, CallsAndListingsGoOnAndSpawnsEndClearly) {
  const char* longer = std::getenv("OUTAGE_SECONDS");
  auto least = std::chrono::steady_clock::now() + std::chrono::seconds(longer ? std::atoi(longer) : 0);
  redis_->kill();
  driver_.write("try\n");
  ask("", "tried: unavailable: ", 180);
  EXPECT_NE(driver_.seen.find("Redis at redis://127.0.0.1:"), std::string::npos) << driver_.seen;
  do {
    ask("calls", "calls go on");
    std::string seen = status(), json = status(true);
    EXPECT_NE(seen.find("store away for "), seen.npos) << seen;
    EXPECT_NE(seen.find("warning: the store is away since "), seen.npos) << seen;
    auto since = json.find("\"store_away_since\": ");
    ASSERT_NE(since, json.npos) << json;
    EXPECT_GT(std::atoll(json.c_str() + since + 20), 1'000'000'000) << json;
    expect_no_node_was_lost();
    auto actors = scene_.run({bin("troupe"), "list", "actors"});
    EXPECT_EQ(actors.status, 0) << actors.output;
    EXPECT_NE(actors.output.find("store is away for "), seen.npos) << actors.output;
    if (longer) std::printf("%s\n", seen.c_str());
  } while (std::chrono::steady_clock::now() < least);
  redis_->start();
  ask("spawns", "spawns go on");
  driver_.write("try\n");
  ask("", "tried: spawned");
  EXPECT_NE(status().find("store ready"), std::string::npos) << status();
  EXPECT_NE(status(true).find("\"store_away_since\": 0"), std::string::npos);
  auto actors = scene_.run({bin("troupe"), "list", "actors"});
  EXPECT_EQ(actors.output.find("store is away"), std::string::npos) << actors.output;
  ask("check", "all ");
  expect_head_lives();
  end();
}

TEST_F(RedisAway, KilledConnectionsLoseNothing) {
  for (int round = 0; round < 10; ++round) {
    redis_->ask({"CLIENT", "KILL", "TYPE", "normal"});
    ask("spawns", "spawns go on");
  }
  ask("check", "all ");
  expect_head_lives();
  end();
}

class SlowDisk : public StoreOutage {
 protected:
  void SetUp() override {
    folder_ = scene_.folder() + "/sync";
    std::filesystem::create_directories(folder_);
    redis_ = std::make_unique<RedisServer>(
        scene_, "redis",
        RedisServer::Options{.extra = "",
                             .environment = {std::string("LD_PRELOAD=") + TROUPE_SLOW_SYNC,
                                             "SLOW_SYNC_FOLDER=" + folder_, "SLOW_SYNC_MS=200"}});
    start_head(redis_->url());
    start_load("mutate", "mutating");
  }
  std::uintmax_t syncs() {
    std::error_code none;
    auto size = std::filesystem::file_size(folder_ + "/count", none);
    return none ? 0 : size;
  }
  std::string folder_;
  std::unique_ptr<RedisServer> redis_;
};

TEST_F(SlowDisk, ManyChangesShareASync) {
  ask("spawns", "spawns go on");
  auto before = syncs();
  ASSERT_GT(before, 0u) << "the server does not sync as the test thinks";
  ask("burst", "burst of 400 acknowledged");
  EXPECT_LT((syncs() - before) * 4, 400u);
  ask("calls", "calls go on");
  expect_no_node_was_lost();
  ask("check", "all ");
  expect_head_lives();
  end();
}

TEST_F(SlowDisk, NothingIsAcknowledgedBeforeItsSync) {
  ask("spawns", "spawns go on");
  std::filesystem::remove(folder_ + "/held");
  std::ofstream(folder_ + "/hold") << "x";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_ + "/held"); }, 60));
  driver_.seen.clear();
  driver_.write("try\n");
  for (int i = 0; i < 5; ++i) {
    status();
    expect_no_node_was_lost();
  }
  EXPECT_TRUE(eventually([&] { return store_away() >= kLongAway; }, 120)) << status();
  expect_no_node_was_lost();
  driver_.wait_for("this never comes", 1);
  EXPECT_EQ(driver_.seen.find("tried"), std::string::npos) << driver_.seen;
  std::filesystem::remove(folder_ + "/hold");
  ask("", "tried: spawned");
  ask("calls", "calls go on");
  ask("check", "all ");
  expect_no_node_was_lost();
  end();
}

// Calls of durable actors go on while Redis or the head is killed; each acknowledged one is applied once.
class DurableOutage : public StoreOutage {
 protected:
  pid_t own_redis() {
    pid_t found = -1;
    std::error_code gone;
    for (auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
      std::ifstream file(entry.path() / "stat");
      std::string pid, name, state, parent;
      if (file >> pid >> name >> state >> parent && name == "(redis-server)" &&
          parent == std::to_string(head_.pid))
        found = std::atoi(pid.c_str());
    }
    return found;
  }
  void both_go_on() {
    ask("node", "node goes on");
    ask("store", "store goes on");
  }
};

TEST_F(DurableOutage, TheHeadsOwnRedisIsKilled) {
  start_head("");
  start_load("durable_outage", "calling");
  for (int round = 0; round < 4; ++round) {
    pid_t redis = own_redis();
    ASSERT_GT(redis, 0);
    ::kill(redis, SIGKILL);
    both_go_on();
  }
  expect_head_lives();
  end();
}

TEST_F(DurableOutage, ARedisIsKilledAndStartedAgain) {
  RedisServer redis(scene_, "redis");
  start_head(redis.url());
  start_load("durable_outage", "calling");
  for (int round = 0; round < 4; ++round) {
    redis.kill();
    ask("node", "node goes on");  // its journal needs no Redis
    redis.start();
    both_go_on();
  }
  expect_head_lives();
  end();
}

TEST_F(DurableOutage, TheHeadIsKilledAndAnotherStarted) {
  start_head("");
  start_load("durable_outage", "calling");
  for (int round = 0; round < 4; ++round) {
    kill_head();
    ask("node", "node goes on");
    start_head("");
    both_go_on();
  }
  end();
}

TEST_F(DurableOutage, AMasterFailsOver) {
  RedisGroup group(scene_);
  start_head(group.url(2));
  start_load("durable_outage", "calling");
  RedisServer& old = group.master();
  old.kill();
  ask("node", "node goes on");
  ASSERT_TRUE(group.failed_over_from(old));
  old.start();  // as a replica, so that there are two again
  both_go_on();
  expect_head_lives();
  end();
}

}  // namespace
}  // namespace troupe::test
