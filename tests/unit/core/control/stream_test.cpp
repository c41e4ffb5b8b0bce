// The byte stream under RPC and handshakes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <thread>

#include "core/control/stream.h"

namespace troupe {
namespace {

class StreamTest : public ::testing::Test {
 protected:
  ~StreamTest() noexcept override {}
  StreamTest() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    a = kj::heap<SocketStream>(loop, UniqueFd(pair[0]));
    b = kj::heap<SocketStream>(loop, UniqueFd(pair[1]));
  }
  std::string read(SocketStream& from, std::size_t least, std::size_t most) {
    std::string text(most, '\0');
    text.resize(from.tryRead(text.data(), least, most).wait(loop.scope()));
    return text;
  }
  void write(SocketStream& to, const std::string& text) {
    to.write(text.data(), text.size()).wait(loop.scope());
  }

  ControlLoop loop;
  kj::Own<SocketStream> a, b;
};

TEST_F(StreamTest, ReadsInAnyPieces) {
  for (bool ahead : {false, true}) {
    if (ahead) b->read_ahead();
    write(*a, "one");
    write(*a, "two");
    EXPECT_EQ(read(*b, 2, 2), "on");
    EXPECT_EQ(read(*b, 4, 4), "etwo");
    auto late = read(*a, 0, 4);
    EXPECT_EQ(late, "");
  }
}

TEST_F(StreamTest, ManyPiecesInOneWrite) {
  std::vector<kj::ArrayPtr<const kj::byte>> pieces;
  std::string text = "abc";
  for (int i = 0; i < 1000; ++i)
    pieces.push_back(kj::arrayPtr(reinterpret_cast<const kj::byte*>(text.data()), 3));
  a->write(kj::arrayPtr(pieces.data(), pieces.size())).wait(loop.scope());
  std::string got = read(*b, 3000, 3000);
  EXPECT_EQ(got.substr(0, 6), "abcabc");
  EXPECT_EQ(got.size(), 3000u);
}

TEST_F(StreamTest, BigWritesWaitForTheReader) {
  std::string big(20u << 20, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 7 >> 3);
  auto written = a->write(big.data(), big.size());
  EXPECT_FALSE(written.poll(loop.scope())) << "20 MiB were taken at once";
  EXPECT_EQ(read(*b, big.size(), big.size()), big);
  written.wait(loop.scope());
}

TEST_F(StreamTest, AHalfClosedPeer) {
  write(*a, "last words");
  a->shutdownWrite();
  EXPECT_EQ(read(*b, 100, 100), "last words");
  EXPECT_EQ(read(*b, 1, 1), "");
  write(*b, "answer");
  EXPECT_EQ(read(*a, 6, 6), "answer");
}

TEST_F(StreamTest, WhatWasWrittenBeforeTheEndArrives) {
  write(*a, "before the end");
  a = nullptr;
  EXPECT_EQ(read(*b, 100, 100), "before the end");
}

TEST_F(StreamTest, WritesToADeadPeerFailAndAreTold) {
  auto ended = a->whenWriteDisconnected();
  b = nullptr;
  std::string text(3u << 20, 'x');
  EXPECT_THROW(
      {
        for (;;) a->write(text.data(), text.size()).wait(loop.scope());
      },
      kj::Exception);
  ended.wait(loop.scope());
}

TEST_F(StreamTest, ADeadPeerEndsAWriterThatWaits) {
  std::string big(20u << 20, 'x');
  auto written = a->write(big.data(), big.size());
  EXPECT_FALSE(written.poll(loop.scope()));
  b = nullptr;
  EXPECT_THROW(written.wait(loop.scope()), kj::Exception);
}

TEST_F(StreamTest, DescriptorsPass) {
  int pair[2];
  ASSERT_EQ(::pipe2(pair, O_CLOEXEC), 0);
  UniqueFd reads(pair[0]), writes(pair[1]);
  write(*a, "before,");
  std::string text = "with";
  int fds[] = {writes.get(), reads.get()};
  a->write_with_fds(std::as_bytes(std::span(text)), fds);
  write(*a, ",after");
  std::string got = read(*b, 17, 17);
  EXPECT_EQ(got, "before,with,after");
  auto taken = b->take_fds();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_TRUE(b->take_fds().empty());
  EXPECT_TRUE(::fcntl(taken[0].get(), F_GETFD) & FD_CLOEXEC);
  writes.reset();
  ASSERT_EQ(::write(taken[0].get(), "x", 1), 1);
  char c = 0;
  ASSERT_EQ(::read(reads.get(), &c, 1), 1);
  EXPECT_EQ(c, 'x');
}

TEST_F(StreamTest, ReleaseGivesTheSocketBack) {
  write(*a, "x");
  UniqueFd socket = a->release();
  a = nullptr;
  EXPECT_EQ(read(*b, 1, 1), "x");
  ASSERT_EQ(::send(socket.get(), "y", 1, 0), 1);
  EXPECT_EQ(read(*b, 1, 1), "y");
}

}  // namespace
}  // namespace troupe
