// Durable actors: answered when it is on the disk, brought back, each call once.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "tests/unit/actors/zoo.h"

namespace troupe::test {
namespace {

// What the ledgers of a test have run, whether they remember it or not.
std::atomic<int> runs{0};

class Ledger {
 public:
  int add(int n) {
    if (!context().replaying()) ++runs;
    entries_.push_back(n);
    if (n < 0) throw TooBig("negative: " + std::to_string(n));
    return static_cast<int>(entries_.size());
  }
  std::vector<int> all() const { return entries_; }
  int snap(int n) {
    context().snapshot();
    return add(n);
  }
  std::string echo(std::string text) { return text; }
  void save(Writer& to) const { encode(to, entries_); }
  void load(Reader& from) { decode(from, entries_); }

 private:
  std::vector<int> entries_;
};

// Stands between the journal and the disk.
struct Gate final : JournalIo {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true, full = false;
  int waiting = 0, syncs = 0;
  long write(int fd, std::span<const std::byte> bytes, std::uint64_t at) override {
    std::lock_guard lock(mutex);
    if (full) return errno = ENOSPC, -1;
    return JournalIo::write(fd, bytes, at);
  }
  int sync(int fd) override {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
    --waiting;
    ++syncs;
    changed.notify_all();
    return JournalIo::sync(fd);
  }
  void set(const std::function<void()>& f) {
    std::lock_guard lock(mutex);
    f();
    changed.notify_all();
  }
  void await(const std::function<bool()>& f) {
    std::unique_lock lock(mutex);
    changed.wait(lock, f);
  }
  ~Gate() override {
    set([this] { open = true; });
  }
};

}  // namespace
}  // namespace troupe::test

template <>
inline constexpr auto troupe::actor<troupe::test::Ledger> =
    troupe::describe<troupe::test::Ledger>("Ledger")
        .methods<&troupe::test::Ledger::add, &troupe::test::Ledger::all, &troupe::test::Ledger::snap,
                 &troupe::test::Ledger::echo>();

namespace troupe::test {
namespace {

static_assert(detail::check_durable<Ledger>());
static_assert(!Savable<Zoo>);
const ClassTable& kLedger = detail::TableOf<Ledger>::table;

class DurableTest : public ::testing::TestWithParam<Join> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/troupe-durable-XXXXXX";
    folder_ = ::mkdtemp(name);
    runs = 0;
    World::register_class(kLedger);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  World::Options options(int workers = 1) {
    World::Options out;
    out.join = GetParam();
    out.workers = workers;
    return out;
  }
  // The end of an incarnation whose process dies: links and lane's state are gone, nobody is told.
  void crash(World& world, ActorId id, int worker) {
    world.forget(id);
    world.cut(worker);
    world.end(id, false);
  }
  std::string folder_;
};
INSTANTIATE_TEST_SUITE_P(
    , DurableTest, ::testing::Values(Join::ring, Join::tcp, Join::local), [](const auto& info) {
      return std::string(info.param == Join::ring ? "Ring" : info.param == Join::tcp ? "Tcp" : "Local");
    });

std::vector<int> numbers(int n) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(i);
  return out;
}

TEST_P(DurableTest, AnAnswerWaitsForTheDisk) {
  Gate gate;
  World world(options());
  ActorId id = world.next_id();
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a", {}, gate));
  Caller<Ledger> ledger(world.driver(), id);
  gate.set([&] { gate.open = false; });
  std::vector<Future<int>> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(ledger.call<&Ledger::add>(i));
  auto read = ledger.call<&Ledger::all>();
  while (runs < 100) std::this_thread::yield();  // the lane goes on
  gate.await([&] { return gate.waiting > 0; });
  World::on(world.worker(), [] {});
  World::on(world.driver(), [] {});
  for (auto& answer : answers) EXPECT_FALSE(answer.ready());
  EXPECT_FALSE(read.ready());  // it tells of what may be lost
  gate.set([&] { gate.open = true; });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(answers[static_cast<std::size_t>(i)].get(), i + 1);
  EXPECT_EQ(read.get(), numbers(100));
  gate.set([&] { EXPECT_LT(gate.syncs, 50); });  // many calls a sync
}

TEST_P(DurableTest, StateComesBack) {
  World world(options());
  ActorId id = world.next_id();
  Caller<Ledger> ledger(world.driver(), id);
  for (std::uint32_t incarnation = 1; incarnation <= 5; ++incarnation) {
    ASSERT_TRUE(world.place_durable(id, incarnation, kLedger, 0, folder_ + "/a"));
    int n = static_cast<int>(incarnation - 1) * 10;
    for (int i = n; i < n + 10; ++i) EXPECT_EQ((ledger.call<&Ledger::add>(i).get()), i + 1);
    EXPECT_EQ((ledger.call<&Ledger::all>().get()), numbers(n + 10));
    crash(world, id, 0);
  }
  EXPECT_EQ(runs, 50);
}

TEST_P(DurableTest, EachCallOnceOverManyEnds) {
  World world(options(2));
  ActorId id = world.next_id();
  Durability plan;
  plan.snapshot_calls = 70;
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a", plan));
  Caller<Ledger> ledger(world.driver(), id);
  std::vector<Future<int>> answers;
  constexpr int kEnds = 40, kEach = 50;
  for (std::uint32_t end = 0; end < kEnds; ++end) {
    for (int i = 0; i < kEach; ++i)
      answers.push_back(ledger.call<&Ledger::add>(static_cast<int>(answers.size())));
    if (end % 3 == 0) answers[answers.size() - kEach / 2].wait_for(std::chrono::seconds(60));
    crash(world, id, static_cast<int>(end % 2));
    ASSERT_TRUE(
        world.place_durable(id, end + 2, kLedger, static_cast<int>((end + 1) % 2), folder_ + "/a", plan));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) ASSERT_EQ(answers[i].get(), static_cast<int>(i) + 1);
  EXPECT_EQ((ledger.call<&Ledger::all>().get()), numbers(kEnds * kEach));
}

TEST_P(DurableTest, AnExceptionIsAnAnswerToo) {
  Gate gate;
  World world(options());
  ActorId id = world.next_id();
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a", {}, gate));
  Caller<Ledger> ledger(world.driver(), id);
  EXPECT_EQ((ledger.call<&Ledger::add>(0).get()), 1);
  // It is in the journal, and its answer never left.
  gate.set([&] { gate.open = false; });
  auto lost = ledger.call<&Ledger::add>(-5);
  gate.await([&] { return gate.waiting > 0; });
  World::on(world.worker(), [] {});
  world.forget(id);
  world.cut(0);
  world.end(id, false);
  gate.set([&] { gate.open = true; });
  ASSERT_TRUE(world.place_durable(id, 2, kLedger, 0, folder_ + "/a", {}, gate));
  Error error = failure(std::move(lost));
  EXPECT_EQ(error.kind, ErrorKind::actor_error) << error.describe();
  EXPECT_EQ(error.message, "negative: -5");
  EXPECT_EQ(runs, 2);
  EXPECT_EQ((ledger.call<&Ledger::all>().get()), (std::vector<int>{0, -5}));
  // From a snapshot as well.
  EXPECT_EQ((ledger.call<&Ledger::snap>(7).get()), 3);
}

TEST_P(DurableTest, AFullDiskFailsCallsAndPasses) {
  Gate gate;
  World world(options());
  ActorId id = world.next_id();
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a", {}, gate));
  Caller<Ledger> ledger(world.driver(), id);
  EXPECT_EQ((ledger.call<&Ledger::add>(0).get()), 1);
  gate.set([&] { gate.full = true; });
  for (int i = 0; i < 3; ++i) {
    Error error = failure(ledger.call<&Ledger::add>(100 + i));
    EXPECT_EQ(error.kind, ErrorKind::resource_exhausted) << error.describe();
    EXPECT_NE(error.message.find("journal"), std::string::npos);
  }
  EXPECT_EQ(failure(ledger.call<&Ledger::all>()).kind, ErrorKind::resource_exhausted);
  gate.set([&] { gate.full = false; });
  int good = 0;
  while (good == 0) {
    try {
      good = ledger.call<&Ledger::add>(1).get();
    } catch (const Failure&) {
      std::this_thread::yield();
    }
  }
  // Only the first that failed had run.
  EXPECT_EQ(good, 3);
  crash(world, id, 0);
  ASSERT_TRUE(world.place_durable(id, 2, kLedger, 0, folder_ + "/a", {}, gate));
  EXPECT_EQ((ledger.call<&Ledger::all>().get()), (std::vector<int>{0, 100, 1}));
}

TEST_P(DurableTest, TellsAreKept) {
  World world(options());
  ActorId id = world.next_id();
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a"));
  Caller<Ledger> ledger(world.driver(), id);
  for (int i = 0; i < 20; ++i) ledger.tell<&Ledger::add>(i);
  EXPECT_EQ((ledger.call<&Ledger::add>(20).get()), 21);
  crash(world, id, 0);
  ASSERT_TRUE(world.place_durable(id, 2, kLedger, 0, folder_ + "/a"));
  EXPECT_EQ((ledger.call<&Ledger::all>().get()), numbers(21));
}

TEST_P(DurableTest, AnswersAreForgottenWhenTheirCallerHasThem) {
  World world(options());
  ActorId id = world.next_id();
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a"));
  Caller<Ledger> ledger(world.driver(), id);
  for (int i = 0; i < 500; ++i) (void)ledger.call<&Ledger::echo>(std::string(1000, 'x')).get();
  std::size_t kept = 0;
  World::on(world.worker(), [&] { kept = world.worker().actors().at(id)->durable()->core().remembered(); });
  EXPECT_LE(kept, 2u);
}

// It has run: its caller must not be told that it did not.
TEST_P(DurableTest, ACallThatComesAgainIsAnsweredThoughTheJournalIsFull) {
  if (GetParam() == Join::local) GTEST_SKIP() << "there is no link to lose the answer on";
  Gate gate;
  World world(options());
  ActorId id = world.next_id();
  Durability plan;
  plan.journal_limit = 1500;
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a", plan, gate));
  Caller<Ledger> ledger(world.driver(), id);
  EXPECT_EQ((ledger.call<&Ledger::add>(1).get()), 1);
  gate.set([&] { gate.open = false; });
  auto echo = ledger.call<&Ledger::echo>(std::string(1000, 'x'));
  gate.await([&] { return gate.waiting > 0; });
  world.forget(id);
  world.cut(0);  // with the answer
  gate.set([&] { gate.open = true; });
  gate.await([&] { return gate.waiting == 0; });
  world.end(id, false);
  ASSERT_TRUE(world.place_durable(id, 2, kLedger, 0, folder_ + "/a", plan, gate));
  EXPECT_EQ(echo.get(), std::string(1000, 'x'));
  EXPECT_EQ(failure(ledger.call<&Ledger::echo>(std::string(1000, 'x'))).kind, ErrorKind::overloaded);
}

TEST_P(DurableTest, ADamagedJournalIsNotBelieved) {
  World world(options());
  ActorId id = world.next_id();
  ASSERT_TRUE(world.place_durable(id, 1, kLedger, 0, folder_ + "/a"));
  Caller<Ledger> ledger(world.driver(), id);
  for (int i = 0; i < 5; ++i) (void)ledger.call<&Ledger::add>(i).get();
  crash(world, id, 0);
  int fd = ::open((folder_ + "/a/journal").c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(fd, "damage", 6, 110), 6);
  ::close(fd);
  auto made = world.place_durable(id, 2, kLedger, 0, folder_ + "/a");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("damaged"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace troupe::test
