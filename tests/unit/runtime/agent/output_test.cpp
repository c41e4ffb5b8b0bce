#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/control/loop.h"
#include "runtime/agent/line_limit.h"
#include "runtime/agent/line_reader.h"
#include "runtime/agent/log_file.h"
#include "runtime/agent/machine.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST(LineLimitTest, PassesABurstThenTheRateAndCountsTheRest) {
  LineLimit limit(200);
  LineLimit::Time now{1h};
  int passed = 0;
  for (int i = 0; i < 1000; ++i) passed += limit.pass(now);
  EXPECT_EQ(passed, 400);
  EXPECT_EQ(limit.take_dropped(), 600u);
  EXPECT_EQ(limit.take_dropped(), 0u);
  passed = 0;
  for (int i = 0; i < 10'000; ++i) passed += limit.pass(now += 1ms);
  EXPECT_NEAR(passed, 2000, 1);
  for (int i = 0; i < 500; ++i) passed += limit.pass(now + 1h);
  EXPECT_NEAR(passed, 2400, 2);  // never more than a burst is saved up
}

class LogFileTest : public ::testing::Test {
 protected:
  LogFileTest() {
    std::string name = ::testing::TempDir() + "troupe_log_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/job-1.log";
  }
  ~LogFileTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(LogFileTest, RotatesAndStaysBounded) {
  LogFile file(path_, 1000, 3);
  for (int i = 0; i < 1000; ++i) {
    file.append("7 w: ", "line " + std::to_string(i));
    if (i % 7 == 0) file.flush();
  }
  file.flush();
  std::size_t total = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_LE(entry.file_size(), 1000u) << entry.path();
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) EXPECT_EQ(line.rfind("7 w: line ", 0), 0u);
    total += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, 3u);
  EXPECT_GT(total, 2000u);
  EXPECT_EQ(file.tail("", 2), "7 w: line 998\n7 w: line 999\n");
  std::string all = file.tail("", 100'000);
  EXPECT_EQ(all.size(), total);
}

TEST_F(LogFileTest, TailOfOneProcess) {
  LogFile file(path_);
  for (int i = 0; i < 10; ++i) {
    file.append("7 a: ", std::to_string(i));
    file.append("77 b: ", std::to_string(i));
  }
  EXPECT_EQ(file.tail("7 ", 3), "7 a: 7\n7 a: 8\n7 a: 9\n");
  EXPECT_EQ(file.tail("8 ", 3), "");
  EXPECT_EQ(LogFile(folder_ + "/none").tail("", 5), "");
}

TEST_F(LogFileTest, ContinuesAfterARestartAndSurvivesALineLongerThanTheFile) {
  { LogFile(path_, 100, 2).append("p ", "first"); }
  LogFile file(path_, 100, 2);
  file.append("p ", std::string(500, 'x'));
  file.append("p ", "last");
  EXPECT_EQ(file.tail("", 1), "p last\n");
}

TEST_F(LogFileTest, AFullDiskLosesLinesOnly) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP();
  ::symlink("/dev/full", path_.c_str());
  LogFile file(path_);
  for (int i = 0; i < 100; ++i) {
    file.append("p ", "x");
    file.flush();
  }
}

TEST(LineReaderTest, CutsAndKeepsTheLastLine) {
  ControlLoop loop;
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  std::vector<std::string> lines;
  auto paf = kj::newPromiseAndFulfiller<void>();
  LineReader reader(
      loop.io(), UniqueFd(fds[0]), [&](std::string_view line) { lines.emplace_back(line); },
      [&] { paf.fulfiller->fulfill(); });
  std::string text = "one\n\ntwo\n" + std::string(LineReader::kLongest + 5, 'x') + "\nlast";
  ASSERT_EQ(::write(fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(fds[1]);
  paf.promise.wait(loop.scope());
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "one");
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(lines[2], "two");
  EXPECT_EQ(lines[3].size(), LineReader::kLongest);
  EXPECT_EQ(lines[4], "xxxxx");
  EXPECT_EQ(lines[5], "last");
}

TEST(MachineTest, HasCpuAndMemory) {
  auto resources = detect_resources();
  EXPECT_GE(resources.amount("cpu"), 1);
  EXPECT_GT(resources.amount("memory"), 1e6);
}

TEST(MachineTest, DevicesFollowWhatTheAgentSees) {
  EXPECT_EQ(devices_of({0, 2}, nullptr), "0,2");
  EXPECT_EQ(devices_of({0, 1}, "5,GPU-abc"), "5,GPU-abc");
  EXPECT_EQ(devices_of({}, "5"), "");
}

}  // namespace
}  // namespace troupe
