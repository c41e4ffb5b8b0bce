// Streams of values from an actor to its caller.
#include <gtest/gtest.h>

#include "tests/unit/actors/zoo.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

class StreamTest : public ::testing::TestWithParam<Join> {
 protected:
  void SetUp() override { board.reset(); }
  World::Options options() {
    World::Options out;
    out.join = GetParam();
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, StreamTest, ::testing::Values(Join::ring, Join::tcp, Join::local),
                         [](const auto& info) {
                           return info.param == Join::ring  ? "Ring"
                                  : info.param == Join::tcp ? "Tcp"
                                                            : "Local";
                         });

TEST_P(StreamTest, TheProducerNeverRunsFurtherAheadThanTheWindow) {
  World world(options());
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  auto stream = zoo.call<&Zoo::count>(2000);
  int taken = 0;
  int window = static_cast<int>(kStreamWindow);
  board.await([&] { return board.yielded >= window; });
  // The actor serves others while the stream waits for its reader.
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
  EXPECT_EQ(board.get(&Board::yielded), window);
  while (auto item = stream.next()) {
    ASSERT_EQ(*item, taken);
    ++taken;
    std::lock_guard lock(board.mutex);
    ASSERT_LE(board.yielded, taken + window);
  }
  EXPECT_EQ(taken, 2000);
  EXPECT_EQ(board.get(&Board::ended), 1);
}

TEST_P(StreamTest, FailuresComeAfterTheItems) {
  World world(options());
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  auto stream = zoo.call<&Zoo::texts>(300, 1000u);
  int taken = 0;
  try {
    for (auto& text : stream) {
      ASSERT_EQ(text.size(), 1000u);
      ++taken;
    }
    FAIL() << "the stream ended without the exception";
  } catch (const ActorError& e) {
    EXPECT_EQ(e.error().message, "after the last text");
  }
  EXPECT_EQ(taken, 300);
}

TEST_P(StreamTest, DroppingTheReaderEndsTheGenerator) {
  World world(options());
  ActorId id = world.spawn<Zoo>();
  Caller<Zoo> zoo(world.driver(), id);
  for (int round = 0; round < 20; ++round) {
    auto stream = zoo.call<&Zoo::count>(1'000'000);
    ASSERT_EQ(*stream.next(), 0);
  }
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
  EXPECT_EQ(board.get(&Board::ended), 0);
  world.end(id, false);
  EXPECT_EQ(board.get(&Board::destroyed), 1);
}

TEST_P(StreamTest, AnItemAboveTheLimitFailsTheStreamOnly) {
  if (GetParam() == Join::local) GTEST_SKIP() << "nothing is encoded into a frame";
  World world(options());
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  auto stream = zoo.call<&Zoo::texts>(3, kMaxFrame + 1);
  EXPECT_THROW(stream.next(), InvalidArgument);
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
}

TEST_P(StreamTest, TheLinkBreaksUnderAStream) {
  if (GetParam() == Join::local) GTEST_SKIP() << "there is no link";
  World world(options());
  ActorId id = world.spawn<Zoo>();
  Caller<Zoo> zoo(world.driver(), id);
  for (std::uint32_t incarnation = 2; incarnation < 12; ++incarnation) {
    auto stream = zoo.call<&Zoo::count>(1'000'000'000);
    for (int i = 0; i < 200; ++i) ASSERT_EQ(*stream.next(), i);
    world.forget(id);
    int before = world.questions;
    world.cut();
    while (world.questions == before) std::this_thread::yield();
    world.end(id, false);
    world.place(id, incarnation, detail::TableOf<Zoo>::table, 0);
    EXPECT_THROW(
        {
          while (stream.next()) {
          }
        },
        ActorDied);
  }
}

TEST_P(StreamTest, AResultAndArgumentsAboveTheLimit) {
  if (GetParam() == Join::local) GTEST_SKIP() << "nothing is encoded into a frame";
  World world(options());
  Caller<Zoo> zoo(world.driver(), world.spawn<Zoo>());
  Error error = failure(zoo.call<&Zoo::big>(kMaxFrame + 1));
  EXPECT_EQ(error.kind, ErrorKind::invalid_argument);
  EXPECT_NE(error.message.find("exceeds the limit"), std::string::npos);
  EXPECT_EQ(failure(zoo.call<&Zoo::size_of>(std::string(kMaxFrame + 1, 'x'))).kind,
            ErrorKind::invalid_argument);
  EXPECT_EQ((zoo.call<&Zoo::legs>().get()), 4);
}

}  // namespace
}  // namespace troupe::test
