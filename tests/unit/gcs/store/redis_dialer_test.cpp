// Finding the master among servers that answer as a test says.
#include "gcs/store/redis_dialer.h"

#include <gtest/gtest.h>

#include <deque>

#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/streambuf.hpp>
#include <asio/write.hpp>

namespace troupe::gcs {
namespace {

using asio::ip::tcp;

// Answers every SENTINEL and ROLE with the same text; AUTH with OK. No text: it never answers.
class FakeServer {
 public:
  FakeServer(asio::io_context& io, std::string answer)
      : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), answer_(std::move(answer)) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  RedisAddress::Sentinel sentinel() const { return {"127.0.0.1", port()}; }
  int connections() const { return connections_; }
  std::string heard;

 private:
  void accept() {
    acceptor_.async_accept([this](asio::error_code bad, tcp::socket socket) {
      if (bad) return;
      ++connections_;
      sockets_.push_back(std::make_unique<tcp::socket>(std::move(socket)));
      read(*sockets_.back());
      accept();
    });
  }
  void read(tcp::socket& socket) {
    auto buffer = std::make_shared<std::array<char, 1024>>();
    socket.async_read_some(asio::buffer(*buffer),
                           [this, &socket, buffer](asio::error_code bad, std::size_t n) {
                             if (bad) return;
                             std::string text(buffer->data(), n), out;
                             heard += text;
                             if (answer_.empty()) return read(socket);
                             if (text.find("AUTH") != text.npos) out += "+OK\r\n";
                             if (text.find("SENTINEL") != text.npos || text.find("ROLE") != text.npos)
                               out += answer_;
                             asio::write(socket, asio::buffer(out), bad);
                             read(socket);
                           });
  }
  tcp::acceptor acceptor_;
  std::string answer_;
  std::deque<std::unique_ptr<tcp::socket>> sockets_;
  int connections_ = 0;
};

std::string names(std::uint16_t port) {
  std::string text = std::to_string(port);
  return "*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

constexpr std::chrono::seconds kLong{3};  // for those that must answer, however busy the machine
constexpr const char* kMaster = "*1\r\n$6\r\nmaster\r\n";
constexpr const char* kReplica = "*1\r\n$5\r\nslave\r\n";

class RedisDialerTest : public ::testing::Test {
 protected:
  // "connected", or why not.
  std::string dial(RedisDialer& dialer) {
    std::string outcome;
    dialer.dial({[&](std::unique_ptr<RedisConnection> made) {
                   connection_ = std::move(made);
                   outcome = "connected";
                 },
                 [&](const std::string& why) { outcome = why; },
                 [&](const std::string& why) { outcome = "refused: " + why; }});
    io_.restart();
    while (outcome.empty()) io_.run_one();
    return outcome;
  }
  RedisAddress address(std::vector<RedisAddress::Sentinel> sentinels) {
    RedisAddress at;
    at.sentinels = std::move(sentinels);
    at.master = "name";
    at.password = "of-the-servers";
    at.sentinel_password = "of-the-sentinels";
    return at;
  }
  asio::io_context io_;
  std::unique_ptr<RedisConnection> connection_;
};

TEST_F(RedisDialerTest, AsksOneSentinelAfterTheOther) {
  FakeServer master(io_, kMaster);
  FakeServer silent(io_, ""), ignorant(io_, "*-1\r\n"), refusing(io_, "-NOAUTH no\r\n"),
      good(io_, names(master.port()));
  RedisDialer dialer(
      io_,
      address(
          {silent.sentinel(), {"127.0.0.1", 1}, ignorant.sentinel(), refusing.sentinel(), good.sentinel()}),
      kLong);
  EXPECT_EQ(dial(dialer), "connected");
  EXPECT_NE(good.heard.find("of-the-sentinels"), std::string::npos);
  EXPECT_EQ(good.heard.find("of-the-servers"), std::string::npos);
  EXPECT_NE(master.heard.find("of-the-servers"), std::string::npos);
  EXPECT_EQ(master.heard.find("of-the-sentinels"), std::string::npos);
}

TEST_F(RedisDialerTest, ReportsThatNoSentinelNamesAMaster) {
  FakeServer ignorant(io_, "*-1\r\n"), other(io_, "*-1\r\n");
  RedisDialer dialer(io_, address({ignorant.sentinel(), other.sentinel()}), kLong);
  std::string why = dial(dialer);
  EXPECT_NE(why.find("no sentinel names a master"), std::string::npos) << why;
  EXPECT_NE(why.find("does not know a master name"), std::string::npos) << why;
  EXPECT_EQ(ignorant.connections() + other.connections(), 2);
}

// A sentinel that is cut off from the others names the old one, and is not asked first again.
TEST_F(RedisDialerTest, TakesNoneThatSaysItIsAReplica) {
  FakeServer master(io_, kMaster), replica(io_, kReplica);
  FakeServer stale(io_, names(replica.port())), good(io_, names(master.port()));
  RedisDialer dialer(io_, address({stale.sentinel(), good.sentinel()}), kLong);
  std::string why = dial(dialer);
  EXPECT_NE(why.find("is none, it says: slave"), std::string::npos) << why;
  EXPECT_EQ(dial(dialer), "connected");
}

TEST_F(RedisDialerTest, AMasterThatHangsIsGivenUp) {
  FakeServer silent(io_, "");
  FakeServer sentinel(io_, names(silent.port()));
  RedisDialer dialer(io_, address({sentinel.sentinel()}), std::chrono::milliseconds(200));
  std::string why = dial(dialer);
  EXPECT_NE(why.find("does not answer"), std::string::npos) << why;
}

}  // namespace
}  // namespace troupe::gcs
