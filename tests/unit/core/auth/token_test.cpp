#include "core/auth/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace troupe {
namespace {

class TokenFileTest : public ::testing::Test {
 protected:
  TokenFileTest() {
    std::string name = ::testing::TempDir() + "troupe_token_XXXXXX";
    directory_ = ::mkdtemp(name.data());
    path_ = directory_ + "/token";
  }
  ~TokenFileTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
  std::string path_;
};

TEST(TokenTest, RandomOnesDifferAndRoundTrip) {
  auto a = Token::random();
  auto b = Token::random();
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(*a == *b);
  EXPECT_EQ(a->hex().size(), 64u);
  auto again = Token::parse(" " + a->hex() + "\n");
  ASSERT_TRUE(again);
  EXPECT_TRUE(*again == *a);
}

TEST(TokenTest, RefusesWhatIsNoToken) {
  for (std::string text : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g')}) {
    auto token = Token::parse(text);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().kind, ErrorKind::invalid_argument);
  }
}

TEST_F(TokenFileTest, StoresPrivatelyAndOnce) {
  auto token = Token::random();
  ASSERT_TRUE(store_token(path_, *token));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  auto loaded = load_token(path_);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(*loaded == *token);
  auto twice = store_token(path_, *token);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().kind, ErrorKind::already_exists);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(TokenFileTest, RefusesAFileThatOthersCanRead) {
  ASSERT_TRUE(store_token(path_, *Token::random()));
  for (mode_t mode : {0640, 0604, 0620}) {
    ::chmod(path_.c_str(), mode);
    auto token = load_token(path_);
    ASSERT_FALSE(token);
    EXPECT_NE(token.error().message.find("chmod 600"), std::string::npos);
  }
}

TEST_F(TokenFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(load_token(path_).error().kind, ErrorKind::not_found);
  std::ofstream(path_) << "not a token";
  ::chmod(path_.c_str(), 0600);
  EXPECT_NE(load_token(path_).error().message.find("64 hexadecimal"), std::string::npos);
  EXPECT_NE(load_token(directory_).error().message.find("not a regular file"), std::string::npos);
  EXPECT_FALSE(store_token(directory_ + "/none/token", *Token::random()));
}

TEST_F(TokenFileTest, CreatorsAtTheSameTimeGetOneToken) {
  std::vector<std::string> tokens(8);
  std::vector<std::thread> threads;
  for (std::string& token : tokens) {
    threads.emplace_back([&] {
      auto made = load_or_create_token(path_);
      if (made) token = made->hex();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& token : tokens) EXPECT_EQ(token, load_token(path_)->hex());
}

}  // namespace
}  // namespace troupe
