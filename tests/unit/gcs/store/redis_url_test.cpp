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
  auto local = parse_redis_url("unix:///run/redis.sock");
  ASSERT_TRUE(local);
  EXPECT_EQ(local->unix_path, "/run/redis.sock");
}

TEST(RedisUrl, RefusesTheRestAndSaysHowToWriteIt) {
  for (const char* bad : {"", "http://x", "redis://", "redis://h:", "redis://h:0", "redis://h:70000",
                          "redis://h:x", "redis://h/x", "redis://h/-1", "redis://user:p@h", "unix://relative",
                          "unix://", "redis://[::1", "redis://[::1]x"}) {
    auto parsed = parse_redis_url(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(parsed.error().message.find("redis://[:password@]"), std::string::npos) << bad;
  }
  EXPECT_FALSE(parse_redis_url("rediss://h"));
}

}  // namespace
}  // namespace troupe::gcs
