#include "gcs/store/redis_url.h"

#include <gtest/gtest.h>

namespace troupe::gcs {
namespace {

TEST(RedisUrl, ReadsTheFormsPeopleWrite) {
  auto full = parse_redis_url("redis://:s3cret@db.example:7000/2");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->host, "db.example");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->password, "s3cret");
  EXPECT_EQ(full->db, 2);
  EXPECT_EQ(full->shown(), "redis://db.example:7000/2");
  auto plain = parse_redis_url("redis://127.0.0.1");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->port, 6379);
  auto v6 = parse_redis_url("redis://[::1]:7");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->shown(), "redis://[::1]:7");
  auto named = parse_redis_url("redis://ann:s3cret@h?replicas=2");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->greeting(), (std::vector<std::string>{"AUTH", "ann", "s3cret"}));
  EXPECT_EQ(named->replicas, 2);
  EXPECT_EQ(named->shown(), "redis://h:6379");
  auto local = parse_redis_url("unix:///run/redis.sock");
  ASSERT_TRUE(local);
  EXPECT_EQ(local->unix_path, "/run/redis.sock");
}

TEST(RedisUrl, ReadsSentinels) {
  auto full = parse_redis_url(
      "redis+sentinel://:s3cret@a.example:7001,b.example,[::1]:7003/mymaster/"
      "2?sentinel_password=other&replicas=2");
  ASSERT_TRUE(full) << full.error().describe();
  ASSERT_EQ(full->sentinels.size(), 3u);
  EXPECT_EQ(full->sentinels[0].port, 7001);
  EXPECT_EQ(full->sentinels[1].host, "b.example");
  EXPECT_EQ(full->sentinels[1].port, 26379);
  EXPECT_EQ(full->sentinels[2].host, "::1");
  EXPECT_EQ(full->master, "mymaster");
  EXPECT_EQ(full->db, 2);
  EXPECT_EQ(full->replicas, 2);
  EXPECT_EQ(full->greeting(), (std::vector<std::string>{"AUTH", "s3cret"}));
  EXPECT_EQ(full->sentinel_password, "other");
  EXPECT_EQ(full->shown(), "redis+sentinel://a.example:7001,b.example:26379,[::1]:7003/mymaster/2");
  auto least = parse_redis_url("redis+sentinel://h/m");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->replicas, 1);  // what nobody else holds is lost by a failover
}

TEST(RedisUrl, RefusesTheRestAndSaysHowToWriteIt) {
  for (const char* bad : {"",
                          "http://x",
                          "redis://",
                          "redis://h:",
                          "redis://h:0",
                          "redis://h:70000",
                          "redis://h:x",
                          "redis://h/x",
                          "redis://h/-1",
                          "redis://user@h",
                          "redis://:@h",
                          "unix://relative",
                          "unix://",
                          "redis://[::1",
                          "redis://[::1]x",
                          "redis://h?replicas=x",
                          "redis://h?replica=1",
                          "redis://h?sentinel_password=x",
                          "redis+sentinel://h",
                          "redis+sentinel://h:1,,g/m",
                          "redis+sentinel:///m",
                          "redis+sentinel://h:1/",
                          "redis+sentinel://h:1,:2/m",
                          "redis+sentinel://h/m/x"}) {
    auto parsed = parse_redis_url(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(parsed.error().message.find("redis://[:password@]"), std::string::npos) << bad;
  }
  EXPECT_FALSE(parse_redis_url("rediss://h"));
}

}  // namespace
}  // namespace troupe::gcs
