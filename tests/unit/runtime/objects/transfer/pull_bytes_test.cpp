// Both ends of a pull over a socket pair: whole objects, copies that come piece by piece, ends, and nonsense.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/os/fd.h"
#include "runtime/objects/transfer/bytes.h"

namespace troupe {
namespace {

const ObjectId kObject{7, {1}, 42};

struct Memory {
  explicit Memory(std::uint64_t size) : file(::memfd_create("test", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
    bytes.resize(size);
    for (std::size_t i = 0; i < size; i += 512) bytes[i] = static_cast<char>(i / 512 * 31);
    EXPECT_EQ(::pwrite(file.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
  }
  UniqueFd file;
  std::vector<char> bytes;
};

struct Sockets {
  Sockets() {
    ::signal(SIGPIPE, SIG_IGN);
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
    source.reset(both[0]);
    puller.reset(both[1]);
    EXPECT_TRUE(prepare_pull_socket(both[0]));
    EXPECT_TRUE(prepare_pull_socket(both[1]));
  }
  PullRequest request() {
    PullRequest asked;
    EXPECT_EQ(::recv(source.get(), &asked, sizeof asked, MSG_WAITALL), static_cast<ssize_t>(sizeof asked));
    return asked;
  }
  UniqueFd source, puller;
};

struct Puller {
  explicit Puller(std::uint64_t size) : bytes(size) {}
  Result<void> receive(int socket) {
    return receive_object(socket, kObject, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()},
                          filling);
  }
  std::vector<char> bytes;
  Filling filling;
};

class PullBytes : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PullBytes, AWholeObject) {
  Memory object(GetParam());
  Sockets sockets;
  Puller puller(GetParam());
  std::thread source([&] {
    PullRequest asked = sockets.request();
    EXPECT_EQ(asked.id(), kObject);
    EXPECT_TRUE(send_object(sockets.source.get(), {object.file.get(), 0, GetParam(), nullptr}, asked.from));
  });
  auto got = puller.receive(sockets.puller.get());
  source.join();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(puller.bytes, object.bytes);
  EXPECT_EQ(puller.filling.state().bytes, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sizes, PullBytes,
                         ::testing::Values(0, 1, 4096, kPullChunk - 1, kPullChunk, kPullChunk + 1,
                                           130 << 20));

// One that is receiving passes on what it has; both end with all of it.
TEST(PullBytesTest, AChain) {
  constexpr std::uint64_t kSize = 40 << 20;
  Memory object(kSize);
  UniqueFd middle(::memfd_create("middle", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(middle.get(), kSize), 0);
  void* mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, middle.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto filling = std::make_shared<Filling>();
  Sockets first, second;
  Puller last(kSize);
  std::thread source([&] {
    EXPECT_TRUE(
        send_object(first.source.get(), {object.file.get(), 0, kSize, nullptr}, first.request().from));
  });
  std::thread passing([&] {
    EXPECT_TRUE(send_object(second.source.get(), {middle.get(), 0, kSize, filling}, second.request().from));
  });
  std::thread receiving([&] {
    EXPECT_TRUE(
        receive_object(first.puller.get(), kObject, {static_cast<std::byte*>(mapped), kSize}, *filling));
  });
  auto got = last.receive(second.puller.get());
  source.join(), passing.join(), receiving.join();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(last.bytes, object.bytes);
  ::munmap(mapped, kSize);
}

TEST(PullBytesTest, GoesOnWhereTheLastSourceEnded) {
  constexpr std::uint64_t kSize = 100 << 20;
  Memory object(kSize);
  Puller puller(kSize);
  {
    Sockets sockets;
    auto filling = std::make_shared<Filling>();
    filling->advance(30 << 20);
    std::thread source([&] {
      EXPECT_FALSE(
          send_object(sockets.source.get(), {object.file.get(), 0, kSize, filling}, sockets.request().from));
    });
    std::thread breaks([&] {
      puller.filling.wait_beyond(0, std::chrono::minutes(1));
      filling->break_off();
    });
    auto got = puller.receive(sockets.puller.get());
    EXPECT_FALSE(got);
    source.join(), breaks.join();
  }
  std::uint64_t kept = puller.filling.state().bytes;
  EXPECT_GT(kept, 0u);
  EXPECT_LE(kept, std::uint64_t{30} << 20);
  Sockets sockets;
  std::thread source([&] {
    PullRequest asked = sockets.request();
    EXPECT_EQ(asked.from, kept);
    EXPECT_TRUE(send_object(sockets.source.get(), {object.file.get(), 0, kSize, nullptr}, asked.from));
  });
  auto got = puller.receive(sockets.puller.get());
  source.join();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(puller.bytes, object.bytes);
}

// What was not confirmed may be another object's bytes by now.
TEST(PullBytesTest, UnconfirmedBytesAreNotKept) {
  Puller puller(kPullChunk);
  Sockets sockets;
  std::thread source([&] {
    sockets.request();
    std::vector<char> bytes(1000, 'x');
    PullHead size{PullHead::size, 0, kPullChunk, 0}, data{PullHead::data, 0, bytes.size(), 0};
    (void)::send(sockets.source.get(), &size, sizeof size, 0);
    (void)::send(sockets.source.get(), &data, sizeof data, 0);
    (void)::send(sockets.source.get(), bytes.data(), bytes.size(), 0);
    std::uint64_t up_to = 0;
    EXPECT_EQ(::recv(sockets.source.get(), &up_to, sizeof up_to, MSG_WAITALL), 8);
    EXPECT_EQ(up_to, bytes.size());
    sockets.source.reset();
  });
  EXPECT_FALSE(puller.receive(sockets.puller.get()));
  source.join();
  EXPECT_EQ(puller.filling.state().bytes, 0u);
}

TEST(PullBytesTest, NonsenseEndsIt) {
  auto receive_from = [](std::vector<PullHead> heads) {
    Puller puller(1000);
    Sockets sockets;
    std::thread source([&] {
      sockets.request();
      (void)::send(sockets.source.get(), heads.data(), heads.size() * sizeof(PullHead), 0);
      ::shutdown(sockets.source.get(), SHUT_WR);
    });
    auto got = puller.receive(sockets.puller.get());
    source.join();
    return got ? "" : got.error().message;
  };
  EXPECT_NE(receive_from({{PullHead::size, 0, 1001, 0}}).find("another size"), std::string::npos);
  EXPECT_NE(receive_from({{PullHead::data, 0, 10, 0}}).find("no size"), std::string::npos);
  EXPECT_NE(receive_from({{PullHead::size, 0, 1000, 0}, {PullHead::data, 0, 1001, 0}}).find("more bytes"),
            std::string::npos);
  EXPECT_NE(receive_from({{PullHead::size, 0, 1000, 0}, {PullHead::end, 0, 0, 0}}).find("its end"),
            std::string::npos);
  EXPECT_NE(receive_from({{PullHead::size, 0, 1000, 5}}).find("confirms"), std::string::npos);
  EXPECT_NE(receive_from({{PullHead::failed, 0, ~std::uint64_t{0}, 0}}).find("too long"), std::string::npos);
  EXPECT_NE(receive_from({{99, 0, 0, 0}}).find("nonsense"), std::string::npos);
  EXPECT_NE(receive_from({}).find("ended"), std::string::npos);
}

TEST(PullBytesTest, APullerThatLiesIsLeft) {
  Memory object(1000);
  Sockets sockets;
  std::uint64_t lie = 5000;
  ASSERT_EQ(::send(sockets.puller.get(), &lie, sizeof lie, 0), 8);
  EXPECT_FALSE(send_object(sockets.source.get(), {object.file.get(), 0, 1000, nullptr}, 0));
  EXPECT_FALSE(send_object(sockets.source.get(), {object.file.get(), 0, 1000, nullptr}, 1001));
}

TEST(PullBytesTest, ARefusalTellsWhy) {
  Puller puller(1000);
  Sockets sockets;
  refuse_pull(sockets.source.get(), Error(ErrorKind::unavailable, "no copy of it is here"));
  auto got = puller.receive(sockets.puller.get());
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("no copy of it is here"), std::string::npos);
}

}  // namespace
}  // namespace troupe
