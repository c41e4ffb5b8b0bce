// User code that throws while something is encoded or decoded: the call fails, everything else goes on.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/actors/zoo.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

// Cannot be written when negative, nor read when it is 13; at 14 it throws what is no std::exception.
struct Touchy {
  int value = 0;
  template <class Archive>
  void save(Archive& archive) const {
    if (value < 0) throw std::runtime_error("Touchy is negative");
    archive(value);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(value);
    if (value == 13) throw std::runtime_error("Touchy is 13");
    if (value == 14) throw "Touchy is 14";
  }
};

class Picky {
 public:
  int take(Touchy what) { return what.value; }
  Touchy give(int value) { return {value}; }
  Generator<Touchy> count_down(int from, int to) {
    for (int i = from; i >= to; --i) co_yield Touchy{i};
  }
  int pass_on(std::uint64_t next, int value);
};

}  // namespace
}  // namespace troupe::test

template <>
inline constexpr auto troupe::actor<troupe::test::Picky> =
    troupe::describe<troupe::test::Picky>("Picky")
        .methods<&troupe::test::Picky::take, &troupe::test::Picky::give, &troupe::test::Picky::count_down,
                 &troupe::test::Picky::pass_on>();

namespace troupe::test {
namespace {

int Picky::pass_on(std::uint64_t next, int value) {
  CallRequest request = deadline(50ms);
  request.retries = 1;  // encoded wherever the other lives
  return here<Picky>(next).call_with<&Picky::take>(request, Touchy{value}).get();
}

class EncodingTest : public ::testing::TestWithParam<Join> {
 protected:
  World::Options options() {
    World::Options out;
    out.join = GetParam();
    out.workers = 2;
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, EncodingTest, ::testing::Values(Join::ring, Join::tcp, Join::local),
                         [](const auto& info) {
                           return info.param == Join::ring  ? "Ring"
                                  : info.param == Join::tcp ? "Tcp"
                                                            : "Local";
                         });

TEST_P(EncodingTest, AnArgumentThatCannotBeWrittenLeavesTheLaneFree) {
  World world(options());
  Caller<Picky> picky(world.driver(), world.spawn<Picky>());
  for (int round = 0; round < 2; ++round) {  // before the route is known, and after
    CallRequest request = deadline(10ms);
    request.retries = 1;
    EXPECT_THROW((void)picky.call_with<&Picky::take>(request, Touchy{-1}), std::runtime_error);
    if (GetParam() != Join::local) {
      EXPECT_THROW((void)picky.call_with<&Picky::take>(deadline(10ms), Touchy{-1}), std::runtime_error);
    }
    int got = 0;
    std::thread([&] { got = picky.call<&Picky::take>(Touchy{5}).get(); }).join();
    EXPECT_EQ(got, 5);
  }
  std::this_thread::sleep_for(20ms);  // the deadlines pass of calls that never were
  EXPECT_EQ((picky.call<&Picky::take>(Touchy{6}).get()), 6);
}

TEST_P(EncodingTest, AnActorGetsTheExceptionOfItsArgument) {
  World world(options());
  Caller<Picky> picky(world.driver(), world.spawn<Picky>(0));
  ActorId other = world.spawn<Picky>(1);
  Error error = failure(picky.call<&Picky::pass_on>(other.value, -1));
  EXPECT_EQ(error.message, "Touchy is negative");
  std::this_thread::sleep_for(60ms);  // its deadline passes
  EXPECT_EQ((picky.call<&Picky::pass_on>(other.value, 3).get()), 3);
}

TEST_P(EncodingTest, AnItemThatCannotBeWrittenEndsItsStreamOnly) {
  World world(options());
  Caller<Picky> picky(world.driver(), world.spawn<Picky>());
  auto stream = picky.call<&Picky::count_down>(2, -1);
  for (int i = 2; i >= 0; --i) EXPECT_EQ(stream.next()->value, i);
  try {
    (void)stream.next();
    FAIL() << "the stream goes on";
  } catch (const Failure& e) {
    EXPECT_NE(e.error().message.find("Touchy is negative"), std::string::npos) << e.error().describe();
  }
  EXPECT_EQ((picky.call<&Picky::take>(Touchy{5}).get()), 5);
}

TEST_P(EncodingTest, AnItemThatCannotBeReadEndsItsStreamOnly) {
  World world(options());
  Caller<Picky> picky(world.driver(), world.spawn<Picky>());
  auto stream = picky.call<&Picky::count_down>(13, 12);
  try {
    while (stream.next()) {
    }
    FAIL() << "the stream goes on";
  } catch (const Failure& e) {
    EXPECT_NE(e.error().message.find("Touchy is 13"), std::string::npos) << e.error().describe();
  }
  EXPECT_EQ((picky.call<&Picky::take>(Touchy{5}).get()), 5);
}

TEST_P(EncodingTest, AnArgumentThatCannotBeReadFailsItsCallOnly) {
  World world(options());
  Caller<Picky> picky(world.driver(), world.spawn<Picky>());
  for (int value : {13, 14}) {
    Error error = failure(picky.call_with<&Picky::take>(retries(1), Touchy{value}));
    EXPECT_NE(error.message.find("Touchy is 1"), std::string::npos) << error.describe();
  }
  EXPECT_EQ((picky.call<&Picky::take>(Touchy{5}).get()), 5);
}

TEST_P(EncodingTest, AResultThatCannotBeWrittenOrReadFailsItsCallOnly) {
  if (GetParam() == Join::local) GTEST_SKIP() << "results are not encoded";
  World world(options());
  Caller<Picky> picky(world.driver(), world.spawn<Picky>());
  for (int value : {-1, 13, 14}) {
    Error error = failure(picky.call<&Picky::give>(value));
    EXPECT_NE(error.message.find("Touchy is"), std::string::npos) << error.describe();
  }
  EXPECT_EQ((picky.call<&Picky::give>(5).get().value), 5);
}

}  // namespace
}  // namespace troupe::test
