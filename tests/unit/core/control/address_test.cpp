#include "core/control/address.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe {
namespace {

TEST(Address, ParsesWhatItPrints) {
  for (const char* text :
       {"127.0.0.1:7600", "localhost:0", "[::1]:80", "unix:/run/troupe.sock", "host.name:65535"}) {
    auto address = parse_address(text);
    ASSERT_TRUE(address) << text << ": " << address.error().message;
    EXPECT_EQ(address->text(), text);
  }
  auto with_default = parse_address("somewhere", 7600);
  ASSERT_TRUE(with_default);
  EXPECT_EQ(with_default->text(), "somewhere:7600");
  EXPECT_EQ(parse_address("[::1]", 7600)->text(), "[::1]:7600");
}

TEST(Address, RefusesWhatIsNone) {
  for (const char* text : {"", ":", ":80", "host", "host:", "host:x", "host:65536", "host:-1", "host:80x",
                           "[::1", "unix:", "[]:80", "host:99999999999999999999", "host: 80", "[::1]junk"}) {
    auto address = parse_address(text);
    EXPECT_FALSE(address) << text << " became " << address->text();
    if (!address) {
      EXPECT_EQ(address.error().kind, ErrorKind::invalid_argument);
    }
  }
}

TEST(Address, TheKernelChoosesAPort) {
  Address any;
  any.host = "127.0.0.1";
  Address first, second;
  auto one = listen_on(any, first), two = listen_on(any, second);
  ASSERT_TRUE(one && two);
  EXPECT_NE(first.port, 0);
  EXPECT_NE(first.port, second.port);
  auto taken = listen_on(first, second);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::already_exists);
  EXPECT_NE(taken.error().message.find("choose another port"), std::string::npos) << taken.error().message;
}

TEST(Address, UnixSocketsArePrivateAndReplaceStaleFiles) {
  Address address, bound;
  address.path = "address_test." + std::to_string(::getpid()) + ".sock";
  {
    auto listening = listen_on(address, bound);
    ASSERT_TRUE(listening);
    struct stat info {};
    ASSERT_EQ(::stat(address.path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    auto taken = listen_on(address, bound);
    ASSERT_FALSE(taken) << "a socket in use was taken away";
    EXPECT_EQ(taken.error().kind, ErrorKind::already_exists);
  }
  EXPECT_TRUE(listen_on(address, bound)) << "a stale file was not replaced";
  ::unlink(address.path.c_str());
}

TEST(Address, HostsAndPathsThatCannotBe) {
  Address address, bound;
  address.host = "no.such.host.invalid";
  address.port = 1;
  EXPECT_EQ(listen_on(address, bound).error().kind, ErrorKind::invalid_argument);
  Address path;
  path.path = "/" + std::string(200, 'x');
  auto listening = listen_on(path, bound);
  ASSERT_FALSE(listening);
  EXPECT_NE(listening.error().message.find("longer than"), std::string::npos);
}

}  // namespace
}  // namespace troupe
