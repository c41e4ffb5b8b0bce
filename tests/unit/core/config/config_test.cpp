#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/config/amounts.h"
#include "core/config/cluster_file.h"
#include "core/config/find_cluster.h"
#include "core/config/home.h"
#include "core/config/host_id.h"

namespace troupe {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    std::string name = ::testing::TempDir() + "troupe_config_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    home_ = folder_ + "/home";
    ::setenv("TROUPE_HOME", home_.c_str(), 1);
    ::unsetenv("TROUPE_HEAD");
    ::unsetenv("TROUPE_TOKEN");
  }
  ~ConfigTest() override {
    ::unsetenv("TROUPE_HOME");
    ::unsetenv("TROUPE_HEAD");
    ::unsetenv("TROUPE_TOKEN");
    std::filesystem::remove_all(folder_);
  }
  ClusterFile live_head() { return {"127.0.0.1:7600", ::getpid(), host_id(), folder_}; }

  std::string folder_, home_;
};

TEST_F(ConfigTest, HomeIsCreatedPrivate) {
  auto path = home();
  ASSERT_TRUE(path) << path.error().describe();
  EXPECT_EQ(*path, home_);
  struct stat info {};
  ASSERT_EQ(::stat(home_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(ConfigTest, HomeThatIsAFileIsRefused) {
  std::ofstream(home_) << "x";
  auto path = home();
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find("TROUPE_HOME"), std::string::npos);
}

TEST_F(ConfigTest, WithoutAClusterTheErrorSaysWhatToDo) {
  auto found = find_cluster();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::not_found);
  EXPECT_EQ(found.error().message,
            "no cluster: start one with `troupe head`, or run the program with `troupe run`");
}

TEST_F(ConfigTest, ClusterFileIsFoundAndRemovedByItsHeadOnly) {
  ASSERT_TRUE(home());
  ASSERT_TRUE(write_cluster_file(home_, live_head()));
  auto token = cluster_token(true);
  ASSERT_TRUE(token);
  auto found = find_cluster();
  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(found->text(), "127.0.0.1:7600");
  EXPECT_TRUE(found->token == *token);
  EXPECT_EQ(found->source, home_ + "/cluster");
  remove_cluster_file(home_, ::getpid() + 1);
  EXPECT_TRUE(read_cluster_file(home_));
  remove_cluster_file(home_, ::getpid());
  EXPECT_FALSE(read_cluster_file(home_));
}

TEST_F(ConfigTest, FileOfADeadHeadIsNoCluster) {
  ASSERT_TRUE(home());
  auto file = live_head();
  pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  file.head_pid = gone;
  ASSERT_TRUE(write_cluster_file(home_, file));
  auto found = find_cluster();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable);
  file.host_id = "elsewhere";  // whose processes nobody here can see
  EXPECT_TRUE(file.head_may_run());
}

TEST_F(ConfigTest, DamagedClusterFileIsNamed) {
  ASSERT_TRUE(home());
  std::ofstream(home_ + "/cluster") << "rubbish\n";
  auto found = find_cluster();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::invalid_argument);
  EXPECT_NE(found.error().message.find(home_ + "/cluster"), std::string::npos);
}

TEST_F(ConfigTest, ArgumentWinsOverEnvironmentWinsOverFile) {
  ASSERT_TRUE(home());
  ASSERT_TRUE(write_cluster_file(home_, live_head()));
  ASSERT_TRUE(cluster_token(true));
  ::setenv("TROUPE_HEAD", "10.0.0.2:1", 1);
  auto token = Token::random();
  ASSERT_TRUE(token);
  ::setenv("TROUPE_TOKEN", token->hex().c_str(), 1);
  auto from_environment = find_cluster();
  ASSERT_TRUE(from_environment);
  EXPECT_EQ(from_environment->text(), "10.0.0.2:1");
  EXPECT_TRUE(from_environment->token == *token);
  auto from_argument = find_cluster("10.0.0.3:2");
  ASSERT_TRUE(from_argument);
  EXPECT_EQ(from_argument->text(), "10.0.0.3:2");
}

TEST_F(ConfigTest, BadAddressAndTokenAreNamed) {
  auto no_token = find_cluster("10.0.0.3:2");
  ASSERT_FALSE(no_token);
  EXPECT_EQ(no_token.error().kind, ErrorKind::unauthenticated);
  auto bad = find_cluster("nonsense");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message.find("--head: "), 0u);
  ::setenv("TROUPE_TOKEN", "abc", 1);
  auto bad_token = find_cluster("10.0.0.3:2");
  ASSERT_FALSE(bad_token);
  EXPECT_NE(bad_token.error().message.find("TROUPE_TOKEN"), std::string::npos);
}

TEST(HostIdTest, IsStable) {
  EXPECT_EQ(host_id(), host_id());
  EXPECT_GT(host_id().size(), 8u);
}

TEST(AmountsTest, Bytes) {
  EXPECT_EQ(*parse_bytes("8GiB"), std::int64_t{8} << 30);
  EXPECT_EQ(*parse_bytes("512m"), 512 << 20);
  EXPECT_EQ(*parse_bytes("1.5K"), 1536);
  EXPECT_EQ(*parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(*parse_bytes("100"), 100);
  for (auto bad : {"", "GiB", "-1", "1x", "1GiBs", "nan", "inf", "1e30", "99999999TiB"}) {
    EXPECT_FALSE(parse_bytes(bad)) << bad;
  }
  EXPECT_EQ(show_bytes(3 << 29), "1.5GiB");
}

TEST(AmountsTest, Resources) {
  auto tpu = parse_resource("tpu=1.5");
  ASSERT_TRUE(tpu);
  EXPECT_EQ(tpu->first, "tpu");
  EXPECT_EQ(tpu->second, 1.5);
  for (auto bad : {"tpu", "=1", "tpu=", "tpu=-1", "t pu=1", "tpu=1x", "cpu=4", "memory=1"}) {
    EXPECT_FALSE(parse_resource(bad)) << bad;
  }
  EXPECT_NE(parse_resource("cpu=4").error().message.find("--cpus"), std::string::npos);
  EXPECT_NE(parse_resource("memory=4").error().message.find("--memory "), std::string::npos);
}

}  // namespace
}  // namespace troupe
