// Ids, resources, errors, rate limits, pools and counted references.
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/pool.h"
#include "core/base/ref.h"
#include "core/base/resources.h"
#include "core/base/throws_error.h"

namespace troupe {
namespace {

TEST(Ids, ActorsAreParsedAsPrinted) {
  for (ActorId id : {actor_of({1}, 1), actor_of({3}, 17), actor_of({kLastProcess}, kActorsPerProcess)}) {
    EXPECT_EQ(parse_actor_id(to_string(id)), id);
  }
  EXPECT_EQ(to_string(actor_of({3}, 17)), "3.17");
  for (const char* text : {"", ".", "3", "3.", ".3", "3.x", "x.3", "3.16777216", "1099511627776.1", "-1.2",
                           "3.17 ", " 3.17", "3.17.2", "99999999999999999999.1"}) {
    EXPECT_FALSE(parse_actor_id(text)) << text;
  }
}

TEST(Ids, HashesSpread) {
  std::set<std::size_t> low;
  for (std::uint64_t n = 1; n <= 1000; ++n) low.insert(std::hash<ActorId>()(actor_of({7}, n)) & 0xffff);
  EXPECT_GT(low.size(), 900u);
}

TEST(Resources, FractionsAddUpExactly) {
  Resources total, tenth;
  ASSERT_TRUE(tenth.set("gpu", 0.1));
  for (int i = 0; i < 10; ++i) total.add(tenth);
  Resources one;
  ASSERT_TRUE(one.set("gpu", 1));
  EXPECT_EQ(total, one);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(total.covers(tenth));
    total.subtract(tenth);
  }
  EXPECT_TRUE(total.empty());
  EXPECT_FALSE(total.covers(tenth));
}

TEST(Resources, RefusesWhatIsNoAmount) {
  Resources resources;
  for (double amount : {-1.0, -0.0001, std::nan(""), std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(), 1e15, 1e300, 0.00001, 1e-300}) {
    auto set = resources.set("cpu", amount);
    ASSERT_FALSE(set) << amount;
    EXPECT_EQ(set.error().kind, ErrorKind::invalid_argument);
  }
  EXPECT_FALSE(resources.set("", 1));
  EXPECT_TRUE(resources.empty());
  EXPECT_TRUE(resources.set("cpu", 0));
  EXPECT_TRUE(resources.set("cpu", -0.0));
  EXPECT_TRUE(resources.empty());
  EXPECT_TRUE(resources.set("memory", 9e14));
  EXPECT_EQ(resources.amount("memory"), 9e14);
}

TEST(Resources, RandomTakingAndGivingBackEndsWhereItBegan) {
  std::mt19937 random(1);
  Resources all;
  ASSERT_TRUE(all.set("cpu", 64));
  ASSERT_TRUE(all.set("gpu", 8));
  ASSERT_TRUE(all.set("tpu", 3));
  Resources free = all;
  std::vector<Resources> taken;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 || taken.empty()) {
      Resources wanted;
      for (const char* name : {"cpu", "gpu", "tpu"}) {
        if (random() % 2) wanted.set_units(name, static_cast<std::int64_t>(random() % 20'000));
      }
      if (!free.covers(wanted)) continue;
      free.subtract(wanted);
      taken.push_back(wanted);
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      free.add(taken.back());
      taken.pop_back();
    }
    for (const auto& [name, units] : free.all()) ASSERT_GT(units, 0) << name;
  }
  for (const auto& one : taken) free.add(one);
  EXPECT_EQ(free, all);
}

TEST(Errors, DescribeTellsCauses) {
  Error inner(ErrorKind::actor_error, "boom");
  inner.type = "std::runtime_error";
  Error outer(ErrorKind::actor_died, "it ended");
  outer.because(inner);
  EXPECT_EQ(outer.describe(), "actor died: it ended\n  because of actor error: std::runtime_error: boom");
  EXPECT_EQ(std::string(ThrowsError(outer).what()), outer.describe());
  EXPECT_EQ(system_error(ENOSPC, "x").kind, ErrorKind::resource_exhausted);
  EXPECT_EQ(system_error(EADDRINUSE, "x").kind, ErrorKind::already_exists);
  Result<void> fine, bad = inner;
  EXPECT_TRUE(fine);
  EXPECT_FALSE(bad);
}

TEST(RateLimit, CountsWhatItDrops) {
  using namespace std::chrono_literals;
  RateLimit limit(3, 100ms);
  auto start = std::chrono::steady_clock::time_point(1h);
  std::uint64_t dropped = 99;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(limit.pass(start + i * 1ms, dropped));
    EXPECT_EQ(dropped, 0u);
  }
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(limit.pass(start + 50ms, dropped));
  EXPECT_TRUE(limit.pass(start + 100ms, dropped));
  EXPECT_EQ(dropped, 7u);
  EXPECT_TRUE(limit.pass(start + 101ms, dropped));
  EXPECT_EQ(dropped, 0u);
}

TEST(Pool, BlocksAreDistinctAlignedAndOfAnySize) {
  std::vector<std::pair<char*, std::size_t>> blocks;
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) {
    if (blocks.size() < 500 || random() % 2) {
      std::size_t size = 1 + random() % 1500;
      auto* block = static_cast<char*>(pool_allocate(size));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t), 0u);
      std::memset(block, static_cast<int>(size % 251), size);
      blocks.emplace_back(block, size);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      auto [block, size] = blocks.back();
      for (std::size_t k = 0; k < size; ++k) ASSERT_EQ(static_cast<unsigned char>(block[k]), size % 251);
      pool_free(block, size);
      blocks.pop_back();
    }
  }
  for (auto [block, size] : blocks) pool_free(block, size);
}

TEST(Pool, OneThreadFreesWhatAnotherTook) {
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> blocks;
    std::thread taker([&] {
      for (int i = 0; i < 6000; ++i) blocks.push_back(pool_allocate(128));
    });
    taker.join();
    std::thread giver([&] {
      for (void* block : blocks) pool_free(block, 128);
    });
    giver.join();
  }
}

struct Counted {
  int count = 1;
  int* deaths;
  void retain() { ++count; }
  void release() {
    if (--count > 0) return;
    ++*deaths;
    delete this;
  }
};

TEST(Ref, CountsOnce) {
  int deaths = 0;
  {
    auto a = Ref<Counted>::adopt(new Counted{1, &deaths});
    auto b = a;
    auto c = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(c->count, 2);
    b = b;
    c = std::move(b);
    EXPECT_EQ(c->count, 1);
    auto d = Ref<Counted>::share(c.get());
    EXPECT_EQ(d->count, 2);
    Ref<Counted>::adopt(d.leave());
    EXPECT_EQ(c->count, 1);
    c = nullptr;
    EXPECT_EQ(deaths, 1);
  }
  EXPECT_EQ(deaths, 1);
}

}  // namespace
}  // namespace troupe
