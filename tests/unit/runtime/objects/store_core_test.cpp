// The store's decisions, told one after the other.
#include "runtime/objects/store_core.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace troupe {
namespace {

class FakeTable final : public SlotTable {
 public:
  void blank(std::uint32_t slot, std::uint64_t, std::uint64_t) override { published.erase(slot); }
  void publish(std::uint32_t slot, const ObjectId& id, std::uint64_t) override { published[slot] = id; }
  bool seize(std::uint32_t slot) override { return pins.count(slot) == 0; }
  void give_back(std::uint32_t) override {}
  void clear(std::uint32_t slot) override { published.erase(slot); }
  void pin(std::uint32_t slot, std::uint32_t) override { pins.insert(slot); }
  bool pinned(std::uint32_t slot) const override { return pins.count(slot) > 0; }
  bool sealed(std::uint32_t slot) const override { return lent.count(slot) > 0; }
  std::set<std::uint32_t> lent;
  std::map<std::uint32_t, ObjectId> published;
  std::multiset<std::uint32_t> pins;
};

constexpr std::uint64_t kMiB = 1 << 20;

class StoreCoreTest : public testing::Test {
 protected:
  StoreCoreTest() : core({8 * kMiB, 16 * kMiB, 64}, table) {
    core.named({1}, 9);
    a = core.attach(1, 100);
    b = core.attach(2, 200);
  }
  ~StoreCoreTest() override { EXPECT_EQ(core.check(), ""); }

  template <class T>
  std::vector<T> take() {
    std::vector<T> found;
    for (auto& one : out) {
      if (auto* as = std::get_if<T>(&one)) found.push_back(*as);
    }
    std::erase_if(out, [](const auto& one) { return std::holds_alternative<T>(one); });
    return found;
  }
  ObjectId next(StoreCore::Process process) { return {9, {1}, object_number(process, ++count)}; }
  // Puts an object of that size, which must find room at once.
  ObjectId put(StoreCore::Process process, std::uint64_t size) {
    core.create(process, ++ticket, size, now + 1000, now, out);
    auto made = take<StoreCore::Made>();
    EXPECT_EQ(made.size(), 1u);
    if (made.empty()) return {};
    ObjectId id = next(process);
    core.created(process, id, made[0].blank.slot, size, false, now, out);
    return id;
  }
  Transit transit(StoreCore::Process process, std::uint64_t number) { return {{1}, process, 1, number}; }

  FakeTable table;
  StoreCore core;
  StoreCore::Process a = 0, b = 0;
  StoreCore::Actions out;
  StoreCore::Now now = 0;
  StoreCore::Ticket ticket = 0;
  std::uint64_t count = 0;
};

TEST_F(StoreCoreTest, AnObjectLivesWhileItIsHeld) {
  ObjectId id = put(a, kMiB);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  EXPECT_TRUE(core.has(id)) << "it is on its way";
  core.claim(b, id, transit(a, 1), now, out);
  EXPECT_TRUE(core.has(id));
  core.drop(b, id, now, out);
  EXPECT_FALSE(core.has(id));
  EXPECT_EQ(core.usage().used, 0u);
}

TEST_F(StoreCoreTest, AClaimMayOvertakeTheAnnouncement) {
  ObjectId id = put(a, kMiB);
  core.claim(b, id, transit(a, 1), now, out);
  core.drop(b, id, now, out);
  EXPECT_TRUE(core.has(id));
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  EXPECT_FALSE(core.has(id));
}

TEST_F(StoreCoreTest, AReceiversWordsMayOvertakeTheCreators) {
  core.create(a, 1, kMiB, 1000, now, out);
  auto made = take<StoreCore::Made>();
  ObjectId id = next(a);
  core.claim(b, id, transit(a, 1), now, out);
  core.get(b, 7, id, 1000, now, out);
  core.sent(b, id, transit(b, 5), now, out);
  core.drop(b, id, now, out);
  EXPECT_TRUE(take<StoreCore::Lost>().empty());
  core.created(a, id, made[0].blank.slot, kMiB, false, now, out);
  EXPECT_EQ(take<StoreCore::Found>().size(), 1u);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  EXPECT_TRUE(core.has(id)) << "b has sent it on";
  core.claim(a, id, transit(b, 5), now, out);
  core.drop(a, id, now, out);
  EXPECT_FALSE(core.has(id));
  table.pins.clear();
  core.tick(now, out);
}

TEST_F(StoreCoreTest, WhatNeverComesIsLost) {
  ObjectId id = next(a);
  core.claim(b, id, transit(a, 1), now, out);
  core.get(b, 7, id, 1000, now, out);
  core.detach(a, now, out);
  core.tick(now + StoreCore::kDeathGrace, out);
  EXPECT_EQ(take<StoreCore::Lost>().size(), 1u);
  EXPECT_EQ(take<StoreCore::Failed>().size(), 1u);
}

TEST_F(StoreCoreTest, ADeadProcessHoldsNothingAfterItsGrace) {
  ObjectId kept = put(a, kMiB), lost = put(a, kMiB);
  core.sent(a, kept, transit(a, 1), now, out);
  core.lease(a, kMiB, 1);
  core.detach(a, now, out);
  core.tick(now + 1000, out);
  EXPECT_TRUE(core.has(lost));
  core.claim(b, kept, transit(a, 1), now, out);
  now += StoreCore::kDeathGrace;
  core.tick(now, out);
  EXPECT_FALSE(core.has(lost));
  EXPECT_TRUE(core.has(kept));
  EXPECT_EQ(core.usage().used, kMiB) << "its blanks are back too";
}

TEST_F(StoreCoreTest, WhatWillNotArriveIsDroppedAfterItsLease) {
  ObjectId id = put(a, kMiB);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  core.expire(a, 2, now);
  core.tick(now + StoreCore::kTransitLease, out);
  EXPECT_TRUE(core.has(id)) << "that was another channel";
  core.expire(a, 1, now);
  core.tick(now + StoreCore::kTransitLease - 1, out);
  EXPECT_TRUE(core.has(id));
  core.tick(now + StoreCore::kTransitLease, out);
  EXPECT_FALSE(core.has(id));
}

TEST_F(StoreCoreTest, TheLeastRecentlyUsedGoesToDisk) {
  ObjectId first = put(a, 4 * kMiB), second = put(a, 4 * kMiB);
  core.get(a, 50, first, 1000, now, out);  // used, then unpinned
  table.pins.clear();
  core.create(b, 1, 4 * kMiB, 1000, now, out);
  auto spills = take<StoreCore::Spill>();
  ASSERT_EQ(spills.size(), 1u);
  EXPECT_EQ(spills[0].id, second);
  EXPECT_TRUE(take<StoreCore::Made>().empty()) << "it waits for the disk";
  core.spilled(second, {}, now, out);
  EXPECT_EQ(take<StoreCore::Made>().size(), 1u);
  // It comes back when it is read; something else goes.
  core.get(b, 60, second, 5000, now, out);
  spills = take<StoreCore::Spill>();
  ASSERT_EQ(spills.size(), 1u);
  EXPECT_EQ(spills[0].id, first);
  core.spilled(first, {}, now, out);
  auto restores = take<StoreCore::Restore>();
  ASSERT_EQ(restores.size(), 1u);
  EXPECT_EQ(core.check(), "");
  core.restored(second, {}, now, out);
  EXPECT_EQ(take<StoreCore::Found>().back().ticket, 60u);
  EXPECT_EQ(take<StoreCore::RemoveFile>().size(), 1u);
  core.drop(a, first, now, out);
  EXPECT_EQ(take<StoreCore::RemoveFile>().size(), 1u);
}

TEST_F(StoreCoreTest, WhatIsReadStaysAndPutsWait) {
  ObjectId first = put(a, 4 * kMiB);
  put(a, 4 * kMiB);
  table.pins = {0, 1, 2, 3};
  core.create(b, 1, 4 * kMiB, now + 1000, now, out);
  EXPECT_TRUE(take<StoreCore::Spill>().empty());
  core.create(b, 2, 4096, now + 1000, now, out);
  EXPECT_TRUE(take<StoreCore::Made>().empty()) << "it does not pass the one before it";
  core.tick(now + 999, out);
  EXPECT_TRUE(take<StoreCore::Failed>().empty());
  table.pins.clear();
  core.drop(a, first, now, out);
  EXPECT_EQ(take<StoreCore::Made>().size(), 2u - 1u);
  core.tick(now + 1000, out);
  auto failed = take<StoreCore::Failed>();
  for (auto& one : failed) EXPECT_EQ(one.why.kind, ErrorKind::object_store_full);
  for (auto& spill : take<StoreCore::Spill>()) core.spilled(spill.id, {}, now, out);
}

TEST_F(StoreCoreTest, MemoryLentByADeadProcessWaitsForItsReader) {
  auto blanks = core.lease(a, kMiB, 2);
  ASSERT_EQ(blanks.size(), 1u) << "an eighth of the memory";
  table.lent.insert(blanks[0].slot);
  core.detach(a, now, out);
  core.tick(now += StoreCore::kDeathGrace, out);
  EXPECT_EQ(core.usage().used, kMiB) << "the message may be read yet";
  EXPECT_EQ(core.check(), "");
  table.pins.insert(blanks[0].slot);
  core.tick(now += StoreCore::kTransitLease, out);
  EXPECT_EQ(core.usage().used, kMiB) << "it is being read";
  table.pins.clear();
  core.tick(now, out);
  EXPECT_EQ(core.usage().used, 0u);
}

TEST_F(StoreCoreTest, AFullDiskIsSaid) {
  for (int i = 0; i < 6; ++i) {
    core.create(a, ++ticket, 4 * kMiB, now + 60'000, now, out);
    for (auto& spill : take<StoreCore::Spill>()) core.spilled(spill.id, {}, now, out);
    auto made = take<StoreCore::Made>();
    ASSERT_EQ(made.size(), 1u) << i;
    core.created(a, next(a), made[0].blank.slot, 4 * kMiB, false, now, out);
  }
  core.create(a, 99, 4 * kMiB, now + 60'000, now, out);
  EXPECT_TRUE(take<StoreCore::Spill>().empty());
  core.tick(now + StoreCore::kDiskRetry, out);
  auto failed = take<StoreCore::Failed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].ticket, 99u);
  EXPECT_EQ(failed[0].why.kind, ErrorKind::object_store_full);
  EXPECT_NE(failed[0].why.message.find("--object-disk"), std::string::npos) << failed[0].why.message;
  core.create(a, 100, 9 * kMiB, now + 60'000, now, out);
  EXPECT_EQ(take<StoreCore::Failed>().size(), 1u) << "larger than the memory";
}

TEST_F(StoreCoreTest, AFailedSpillLeavesTheObject) {
  ObjectId first = put(a, 4 * kMiB);
  put(a, 4 * kMiB);
  core.create(b, 1, 4 * kMiB, now + 60'000, now, out);
  ASSERT_EQ(take<StoreCore::Spill>().size(), 1u);
  core.get(b, 2, first, 1000, now, out);
  core.spilled(first, Error(ErrorKind::resource_exhausted, "no space"), now, out);
  EXPECT_EQ(take<StoreCore::Found>().size(), 1u);
  table.pins.clear();
  core.tick(now + StoreCore::kDiskRetry, out);
  auto failed = take<StoreCore::Failed>();
  auto spills = take<StoreCore::Spill>();
  EXPECT_EQ(failed.size() + spills.size(), 1u);
  for (auto& spill : spills) core.spilled(spill.id, {}, now, out);
}

TEST_F(StoreCoreTest, BlanksAreAskedForWhenMemoryIsShort) {
  auto blanks = core.lease(a, kMiB, 8);
  ASSERT_EQ(blanks.size(), 1u) << "an eighth of the memory at most";
  core.create(b, 1, 8 * kMiB, now + 60'000, now, out);
  ASSERT_EQ(take<StoreCore::GiveBack>().size(), 1u);
  core.discard(a, blanks[0].slot, now, out);
  EXPECT_EQ(take<StoreCore::Made>().size(), 1u);
}

TEST_F(StoreCoreTest, AnotherNodesHoldsCount) {
  ObjectId id = put(a, kMiB);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  EXPECT_TRUE(core.lend({2}, id, transit(a, 1), now, out));
  EXPECT_TRUE(core.has(id));
  core.take_back({2}, id, now, out);
  EXPECT_FALSE(core.has(id));
  EXPECT_FALSE(core.lend({2}, id, {}, now, out));
  id = put(a, kMiB);
  core.lend({2}, id, {}, now, out);
  core.drop(a, id, now, out);
  core.node_gone({2}, now, out);
  EXPECT_FALSE(core.has(id));
}

TEST_F(StoreCoreTest, ARemoteObjectIsBorrowedPulledAndGivenBack) {
  ObjectId id{9, {2}, object_number(4, 1)};
  Transit from{{3}, 8, 1, 1};  // sent by a third node
  core.claim(a, id, from, now, out);
  ASSERT_EQ(take<StoreCore::Borrow>().size(), 1u);
  EXPECT_TRUE(take<StoreCore::Claimed>().empty()) << "not before the home has answered";
  core.borrowed(id, true, now, out);
  EXPECT_EQ(take<StoreCore::Claimed>().size(), 1u);
  core.get(a, 1, id, now + 1000, now, out);
  ASSERT_EQ(take<StoreCore::Pull>().size(), 1u);
  core.reserve(id, kMiB, now + 1000, now, out);
  ASSERT_EQ(take<StoreCore::Reserved>().size(), 1u);
  core.sealed(id, now, out);
  EXPECT_EQ(take<StoreCore::Found>().size(), 1u);
  table.pins.clear();
  // Copies go without the disk: the home has it.
  core.create(a, 2, 8 * kMiB, now + 1000, now, out);
  EXPECT_TRUE(take<StoreCore::Spill>().empty());
  EXPECT_EQ(take<StoreCore::Made>().size(), 1u);
  core.get(a, 3, id, now + 1000, now, out);
  EXPECT_EQ(take<StoreCore::Pull>().size(), 1u);
  core.drop(a, id, now, out);
  EXPECT_EQ(take<StoreCore::StopPull>().size(), 1u);
  core.aborted(id, Error(ErrorKind::cancelled, "nobody waits"), now, out);
  EXPECT_EQ(take<StoreCore::Return>().size(), 1u);
  EXPECT_EQ(take<StoreCore::Failed>().size(), 1u);
}

// Who comes while a pull is being ended that nobody waited for has a pull of its own.
TEST_F(StoreCoreTest, APullThatIsBeingEndedFailsNobodyElse) {
  ObjectId id{9, {2}, object_number(4, 1)};
  core.claim(a, id, {{3}, 8, 1, 1}, now, out);
  core.borrowed(id, true, now, out);
  core.get(a, 1, id, now + 1000, now, out);
  ASSERT_EQ(take<StoreCore::Pull>().size(), 1u);
  core.drop(a, id, now, out);
  ASSERT_EQ(take<StoreCore::StopPull>().size(), 1u);
  core.claim(a, id, {{3}, 8, 1, 2}, now, out);
  core.get(a, 2, id, now + 1000, now, out);
  (void)take<StoreCore::Failed>();  // of the first, which has left
  core.aborted(id, Error(ErrorKind::cancelled, "nobody waits for it any more"), now, out);
  EXPECT_TRUE(take<StoreCore::Failed>().empty());
  ASSERT_EQ(take<StoreCore::Pull>().size(), 1u);
  core.reserve(id, kMiB, now + 1000, now, out);
  core.sealed(id, now, out);
  EXPECT_FALSE(take<StoreCore::Found>().empty());
  table.pins.clear();
}

TEST_F(StoreCoreTest, ALostHomeLosesItsObjects) {
  ObjectId id{9, {2}, object_number(4, 1)};
  core.claim(a, id, {{2}, 8, 1, 1}, now, out);
  core.borrowed(id, true, now, out);
  core.node_gone({2}, now, out);
  auto lost = take<StoreCore::Lost>();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].why.kind, ErrorKind::object_lost);
  core.drop(a, id, now, out);
}

TEST_F(StoreCoreTest, AnUnknownIdIsAnError) {
  core.get(a, 1, {9, {1}, object_number(77, 1)}, now + 1000, now, out);
  auto failed = take<StoreCore::Failed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].why.kind, ErrorKind::object_lost);
  core.get(a, 2, {8, {1}, object_number(1, 1)}, now + 1000, now, out);
  failed = take<StoreCore::Failed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].why.kind, ErrorKind::invalid_argument) << "of another cluster";
}

// ---- what is watched: memory of the creator that an object stands for ----

class Watched : public StoreCoreTest {
 protected:
  ObjectId watch(StoreCore::Process process) {
    auto blanks = core.lease(process, 4096, 1);
    EXPECT_EQ(blanks.size(), 1u);
    ObjectId id = next(process);
    core.created(process, id, blanks.at(0).slot, 300, true, now, out);
    return id;
  }
  std::vector<ObjectId> gone(StoreCore::Process process) {
    std::vector<ObjectId> ids;
    for (auto& one : take<StoreCore::Gone>()) {
      EXPECT_EQ(one.process, process);
      ids.push_back(one.id);
    }
    return ids;
  }
};

TEST_F(Watched, TheCreatorIsToldOnceWhenNobodyHoldsIt) {
  ObjectId id = watch(a);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  EXPECT_TRUE(gone(a).empty()) << "it is on its way";
  core.claim(b, id, transit(a, 1), now, out);
  core.sent(b, id, transit(b, 2), now, out);
  core.drop(b, id, now, out);
  EXPECT_TRUE(gone(a).empty()) << "b has passed it on";
  core.claim(a, id, transit(b, 2), now, out);
  EXPECT_TRUE(gone(a).empty()) << "to its creator";
  core.drop(a, id, now, out);
  EXPECT_EQ(gone(a), std::vector{id});
  core.drop(a, id, now, out);
  EXPECT_TRUE(gone(a).empty());
}

TEST_F(Watched, AKilledHolderCountsNoMoreAfterItsGrace) {
  ObjectId id = watch(a);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  core.claim(b, id, transit(a, 1), now, out);
  core.detach(b, now, out);
  core.tick(now + StoreCore::kDeathGrace - 1, out);
  EXPECT_TRUE(gone(a).empty());
  core.tick(now + StoreCore::kDeathGrace, out);
  EXPECT_EQ(gone(a), std::vector{id});
}

TEST_F(Watched, AMessageThatIsLostCountsNoMoreAfterItsLease) {
  ObjectId id = watch(a);
  core.sent(a, id, transit(a, 1), now, out);
  core.drop(a, id, now, out);
  core.expire(a, 1, now);
  core.tick(now + StoreCore::kTransitLease, out);
  EXPECT_EQ(gone(a), std::vector{id});
}

TEST_F(Watched, WhoHoldsItIsToldOfTheCreatorsDeath) {
  ObjectId held = watch(a), coming = watch(a);
  for (auto [id, n] : {std::pair(held, 1), std::pair(coming, 2)}) {
    core.sent(a, id, transit(a, static_cast<std::uint64_t>(n)), now, out);
    core.drop(a, id, now, out);
  }
  core.claim(b, held, transit(a, 1), now, out);
  core.detach(a, now, out);
  EXPECT_TRUE(take<StoreCore::Lost>().empty());
  now += StoreCore::kDeathGrace;
  core.tick(now, out);
  auto lost = take<StoreCore::Lost>();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].process, b);
  EXPECT_EQ(lost[0].id, held);
  EXPECT_EQ(lost[0].why.kind, ErrorKind::object_lost);
  EXPECT_EQ(core.check(), "");
  core.claim(b, coming, transit(a, 2), now, out);
  lost = take<StoreCore::Lost>();
  ASSERT_EQ(lost.size(), 1u) << "also who claims it afterwards";
  EXPECT_EQ(lost[0].id, coming);
  core.drop(b, held, now, out);
  core.drop(b, coming, now, out);
  EXPECT_TRUE(take<StoreCore::Gone>().empty()) << "nobody is there to be told";
  EXPECT_EQ(core.objects(), 0u);
  EXPECT_EQ(core.usage().used, 0u);
}

TEST_F(Watched, AnOrdinaryObjectIsNotTold) {
  ObjectId id = put(a, kMiB);
  core.drop(a, id, now, out);
  EXPECT_TRUE(take<StoreCore::Gone>().empty());
}

}  // namespace
}  // namespace troupe
