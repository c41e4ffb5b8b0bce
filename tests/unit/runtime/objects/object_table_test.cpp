#include "runtime/objects/object_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "runtime/objects/pin_page.h"

namespace troupe {
namespace {

ObjectMemoryFds copy(const ObjectMemoryFds& fds) {
  return {UniqueFd(::fcntl(fds.arena.get(), F_DUPFD_CLOEXEC, 0)),
          UniqueFd(::fcntl(fds.table.get(), F_DUPFD_CLOEXEC, 0))};
}

ObjectId id(std::uint64_t number) { return {1, {3}, number}; }

TEST(ObjectTable, APinHoldsASealedObject) {
  auto made = ObjectTable::create(4 << 20);
  ASSERT_TRUE(made) << made.error().message;
  ObjectTable& agent = **made;
  auto mapped = ObjectTable::map(copy(agent.fds()));
  ASSERT_TRUE(mapped) << mapped.error().message;
  ObjectTable& reader = **mapped;
  EXPECT_EQ(reader.capacity(), 4u << 20);
  PinPage pins(reader, 5);
  agent.open_page(5);
  agent.blank(7, 8192, 4096);
  EXPECT_FALSE(pins.pin(7, id(1))) << "it is being written";
  std::memcpy(reader.writable(nullptr) + 8192, "bytes", 5);
  reader.seal(7, id(1), 5);
  EXPECT_FALSE(pins.pin(7, id(2))) << "another object";
  auto where = pins.pin(7, id(1));
  ASSERT_TRUE(where);
  EXPECT_EQ(where->size, 5u);
  EXPECT_EQ(std::memcmp(reader.readable(nullptr) + where->offset, "bytes", 5), 0);
  EXPECT_FALSE(agent.seize(7)) << "it is read";
  EXPECT_TRUE(pins.pin(7, id(1))) << "and can be read on";
  EXPECT_FALSE(pins.pin(7, id(2))) << "by an old hint";
  pins.unpin(7);
  EXPECT_FALSE(agent.seize(7)) << "it is read once more";
  pins.unpin(7);
  EXPECT_TRUE(agent.seize(7));
  EXPECT_FALSE(pins.pin(7, id(1)));
  agent.clear(7);
  EXPECT_FALSE(pins.pin(7, id(1)));
  agent.pin(9, 5);
  EXPECT_TRUE(agent.pinned(9));
  agent.close_page(5);
  EXPECT_FALSE(agent.pinned(9)) << "a dead process reads nothing";
}

TEST(ObjectTable, RefusesMemoryThatMayShrink) {
  auto made = ObjectTable::create(2 << 20);
  ASSERT_TRUE(made);
  ObjectMemoryFds fds = copy((*made)->fds());
  fds.arena.reset(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fds.arena.get(), 2 << 20), 0);
  EXPECT_FALSE(ObjectTable::map(std::move(fds)));
  EXPECT_NE(::ftruncate((*made)->fds().arena.get(), 0), 0) << "the arena is sealed";
}

// Processes pin and read a slot while the agent takes it away and fills it anew: no reader ever sees bytes of
// another object than the one it has pinned.
TEST(ObjectTable, ProcessesThatPinNeverSeeMemoryThatWasTaken) {
  constexpr int kReaders = 3, kSlots = 4;
  constexpr std::uint64_t kBytes = 4096;
  auto made = ObjectTable::create(2 << 20);
  ASSERT_TRUE(made);
  ObjectTable& agent = **made;
  auto fill = [&](std::uint32_t slot, std::uint64_t number) {
    agent.blank(slot, slot * kBytes, kBytes);
    auto* words = reinterpret_cast<std::uint64_t*>(agent.writable(nullptr) + slot * kBytes);
    for (std::size_t i = 0; i < kBytes / 8; ++i) words[i] = number;
    agent.publish(slot, id(number), kBytes);
  };
  std::uint64_t newest[kSlots];
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) fill(slot, newest[slot] = slot + 1);
  // The newest numbers, told through the arena as a message would.
  auto* told = reinterpret_cast<std::atomic<std::uint64_t>*>(agent.writable(nullptr) + (1 << 20));
  for (int slot = 0; slot < kSlots; ++slot) told[slot] = newest[slot];
  std::vector<pid_t> children;
  for (std::uint32_t reader = 0; reader < kReaders; ++reader) {
    agent.open_page(reader + 1);
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(60);
      PinPage pins(agent, reader + 1);
      int read = 0;
      for (std::uint32_t i = 0; read < 30'000 || told[kSlots] == 0; ++i) {
        std::uint32_t slot = i % kSlots;
        std::uint64_t number = told[slot];
        auto where = pins.pin(slot, id(number));
        if (!where) continue;
        ++read;
        auto* words =
            reinterpret_cast<volatile const std::uint64_t*>(agent.writable(nullptr) + where->offset);
        for (std::size_t n = 0; n < kBytes / 8; ++n) {
          if (words[n] != number) ::_exit(1);
        }
        pins.unpin(slot);
        if (told[kSlots] != 0 && read >= 30'000) break;
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  int taken = 0, refused = 0;
  for (std::uint32_t i = 0; taken < 60'000; ++i) {
    std::uint32_t slot = i % kSlots;
    if (!agent.seize(slot)) {
      ++refused;
      continue;
    }
    ++taken;
    newest[slot] += kSlots;
    fill(slot, newest[slot]);
    told[slot] = newest[slot];
  }
  told[kSlots] = 1;
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "a reader saw bytes of another object, or got none";
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace troupe
