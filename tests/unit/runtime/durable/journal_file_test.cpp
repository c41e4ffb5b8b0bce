// The journal's files: what is cut off, what is damaged, who may write, what a full disk does.
#include "runtime/durable/journal_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

class JournalFileTest : public ::testing::Test {
 protected:
  JournalFileTest() {
    char name[] = "/tmp/troupe-journal-XXXXXX";
    folder_ = std::string(::mkdtemp(name)) + "/actor";
  }
  ~JournalFileTest() override { std::filesystem::remove_all(std::filesystem::path(folder_).parent_path()); }

  JournalOwner owner(std::uint32_t incarnation, bool served = false) {
    return {7, 0x1234, incarnation, served};
  }
  Bytes block(int calls) {
    BlockBuilder builder;
    std::uint64_t first = last_ + 1;
    for (int i = 0; i < calls; ++i) {
      ++last_;
      std::string args = "args of call " + std::to_string(last_);
      builder.add({1, last_, 1, 0, false, std::as_bytes(std::span(args))});
    }
    return builder.finish(first);
  }
  std::string read(const char* name) {
    std::ifstream in(folder_ + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  void write(const char* name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary | std::ios::trunc) << content;
  }
  // Writes three blocks of 1, 2 and 3 calls; the size after each.
  std::vector<std::size_t> three_blocks() {
    Recovered none;
    auto file = JournalFile::open(folder_, owner(1), none);
    EXPECT_TRUE(file);
    std::vector<std::size_t> sizes{read("journal").size()};
    for (int calls : {1, 2, 3}) {
      EXPECT_TRUE(file->append(block(calls)));
      sizes.push_back(read("journal").size());
    }
    return sizes;
  }

  std::string folder_;
  std::uint64_t last_ = 0;
};

TEST_F(JournalFileTest, BringsBackWhatWasAppended) {
  three_blocks();
  Recovered found;
  auto file = JournalFile::open(folder_, owner(2, true), found);
  ASSERT_TRUE(file) << file.error().describe();
  EXPECT_TRUE(found.found);
  EXPECT_EQ(found.last, 6u);
  ASSERT_EQ(found.blocks.size(), 3u);
  std::uint64_t n = 0;
  for (auto& view : found.blocks) {
    auto rest = view.records;
    CallRecord record;
    while (next_record(rest, record)) EXPECT_EQ(record.sequence, ++n);
  }
  EXPECT_EQ(n, 6u);
  EXPECT_TRUE(file->append(block(1)));
}

TEST_F(JournalFileTest, IsPrivate) {
  three_blocks();
  for (const char* name : {"", "/lock", "/journal"}) {
    struct stat info {};
    ASSERT_EQ(::stat((folder_ + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << name;
  }
}

TEST_F(JournalFileTest, ATornTailIsCutWhereverItWasTorn) {
  auto sizes = three_blocks();
  std::string whole = read("journal");
  for (std::size_t size = sizes[2] + 1; size < sizes[3]; size += 7) {
    write("journal", whole.substr(0, size));
    Recovered found;
    auto file = JournalFile::open(folder_, owner(2), found);
    ASSERT_TRUE(file) << file.error().describe();
    EXPECT_EQ(found.last, 3u);
    EXPECT_EQ(read("journal").size(), sizes[2]);
    last_ = 3;
    ASSERT_TRUE(file->append(block(3)));
    EXPECT_EQ(read("journal"), whole);
  }
}

TEST_F(JournalFileTest, ABlockWhosePagesCameOutOfOrderIsATornTail) {
  auto sizes = three_blocks();
  std::string torn = read("journal");
  // The beginning of the last block is not there, its end is.
  for (std::size_t i = sizes[2]; i < sizes[2] + 60; ++i) torn[i] = 0;
  write("journal", torn);
  Recovered found;
  auto file = JournalFile::open(folder_, owner(2), found);
  ASSERT_TRUE(file) << file.error().describe();
  EXPECT_EQ(found.last, 3u);
}

TEST_F(JournalFileTest, DamageInTheMiddleIsAnErrorAndChangesNothing) {
  auto sizes = three_blocks();
  std::string whole = read("journal");
  for (std::size_t at = 0; at < sizes[2]; at += 5) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    // Padding is covered by nothing and means nothing.
    if (at >= sizes[0] && scan_blocks(std::as_bytes(std::span(damaged)).subspan(sizes[0]), 0)) continue;
    write("journal", damaged);
    Recovered found;
    auto file = JournalFile::open(folder_, owner(2), found);
    ASSERT_FALSE(file) << at;
    EXPECT_EQ(file.error().kind, ErrorKind::internal);
    EXPECT_NE(file.error().message.find("journal"), std::string::npos);
    EXPECT_EQ(read("journal"), damaged);
  }
}

TEST_F(JournalFileTest, ASnapshotReplacesTheJournal) {
  Recovered none;
  auto file = JournalFile::open(folder_, owner(1), none);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append(block(5)));
  std::string old = read("journal");
  std::string image = "the image";
  ASSERT_TRUE(file->snapshot(5, std::as_bytes(std::span(image))));
  EXPECT_LT(read("journal").size(), old.size());
  ASSERT_TRUE(file->append(block(2)));
  file = Error();  // its lock goes
  Recovered found;
  auto next = JournalFile::open(folder_, owner(2, true), found);
  ASSERT_TRUE(next) << next.error().describe();
  EXPECT_EQ(found.snapshot_at, 5u);
  EXPECT_EQ(found.last, 7u);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(found.snapshot.data()), found.snapshot.size()), image);
  ASSERT_EQ(found.blocks.size(), 1u);
  next = Error();
  // The process died before the journal was replaced: the old one is read from where the snapshot ends.
  write("journal", old);
  Recovered between;
  auto third = JournalFile::open(folder_, owner(3, true), between);
  ASSERT_TRUE(third) << third.error().describe();
  EXPECT_EQ(between.last, 5u);
  third = Error();
  std::string snapshot = read("snapshot");
  snapshot.back() = 'X';
  write("snapshot", snapshot);
  Recovered bad;
  EXPECT_FALSE(JournalFile::open(folder_, owner(4, true), bad));
  std::filesystem::remove(folder_ + "/snapshot");
  last_ = 0;
  Recovered half;
  EXPECT_TRUE(JournalFile::open(folder_, owner(5, true), half));  // the old journal is whole without it
}

TEST_F(JournalFileTest, OneWriterAtATime) {
  Recovered found;
  auto first = JournalFile::open(folder_, owner(1), found);
  ASSERT_TRUE(first);
  auto second = JournalFile::open(folder_, owner(2), found);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::already_exists);
  EXPECT_TRUE(first->append(block(1)));
}

TEST_F(JournalFileTest, AnOlderIncarnationIsRefused) {
  Recovered found;
  auto first = JournalFile::open(folder_, owner(3), found);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->append(block(1)));
  // As if the lock had not held, on a file system without locks.
  std::uint32_t later = 4;
  write("lock", std::string(reinterpret_cast<char*>(&later), sizeof later));
  auto refused = first->append(block(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::cancelled);
  EXPECT_FALSE(first->snapshot(1, {}));
  first = Error();
  auto late = JournalFile::open(folder_, owner(3), found);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(JournalFile::open(folder_, owner(4), found));
}

TEST_F(JournalFileTest, AJournalThatMustBeThereAndIsNot) {
  Recovered found;
  auto file = JournalFile::open(folder_, owner(2, true), found);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::not_found);
  // Trying again does not make an empty one of it.
  EXPECT_FALSE(JournalFile::open(folder_, owner(3, true), found));
}

TEST_F(JournalFileTest, OfAnotherActorIsRefused) {
  three_blocks();
  Recovered found;
  EXPECT_FALSE(JournalFile::open(folder_, JournalOwner{8, 0x1234, 2}, found));
  EXPECT_FALSE(JournalFile::open(folder_, JournalOwner{7, 0x1235, 2}, found));
}

// A disk with so many bytes left.
struct SmallDisk final : JournalIo {
  std::size_t left = 1 << 20;
  bool syncs = true;
  long write(int fd, std::span<const std::byte> bytes, std::uint64_t at) override {
    if (left == 0) return errno = ENOSPC, -1;
    long n = JournalIo::write(fd, bytes.first(std::min(bytes.size(), left)), at);
    if (n > 0) left -= static_cast<std::size_t>(n);
    return n;
  }
  int sync(int fd) override { return syncs ? JournalIo::sync(fd) : (errno = EIO, -1); }
};

TEST_F(JournalFileTest, AFullDiskLosesNothingAndGoesOn) {
  SmallDisk disk;
  Recovered found;
  auto file = JournalFile::open(folder_, owner(1), found, disk);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append(block(2)));
  std::size_t good = read("journal").size();
  Bytes next = block(50);
  disk.left = 100;
  for (int i = 0; i < 3; ++i) {
    auto full = file->append(next);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().kind, ErrorKind::resource_exhausted);
  }
  // Half a block lies at the end. A snapshot fails too, and leaves everything as it is.
  EXPECT_GT(read("journal").size(), good);
  EXPECT_FALSE(file->snapshot(2, next));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/snapshot"));
  disk.left = 1 << 20;
  disk.syncs = false;
  EXPECT_FALSE(file->append(next));
  disk.syncs = true;
  ASSERT_TRUE(file->append(next));
  ASSERT_TRUE(file->append(block(1)));
  file = Error();
  auto again = JournalFile::open(folder_, owner(2), found);
  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ(found.last, 53u);
}

}  // namespace
}  // namespace troupe
