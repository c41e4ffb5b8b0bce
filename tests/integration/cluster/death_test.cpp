// Whoever dies, nobody survives its owner: not workers, not what actors started, not the head's Redis.
#include <gtest/gtest.h>

#include <signal.h>
#include <regex>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "support.h"

namespace troupe::test {
namespace {

// A head, a node and a driver with actors that have children.
struct Cast {
  Scene scene;
  Scene::Process head, node, driver;
  int worker = 0, child = 0;

  explicit Cast(std::vector<std::string> node_options = {}) {
    head = scene.start({bin("troupe"), "head"});
    EXPECT_TRUE(head.wait_for("listening on")) << head.seen;
    std::vector<std::string> line{bin("troupe"), "node"};
    line.insert(line.end(), node_options.begin(), node_options.end());
    node = scene.start(line);
    driver = scene.start({bin("troupe"), "run", bin("probe"), "linger"});
    EXPECT_TRUE(driver.wait_for("probe: lingering ")) << driver.seen;
    driver.wait_for("\n", 5);
    auto at = driver.seen.find("probe: lingering ");
    if (at != driver.seen.npos)
      std::sscanf(driver.seen.c_str() + at, "probe: lingering %d %d", &worker, &child);
  }
  bool lives(int pid) const {
    auto all = scene.processes();
    return std::find(all.begin(), all.end(), pid) != all.end();
  }
  // The processes that are neither head, Redis nor node.
  bool job_gone() const {
    return eventually([&] {
      std::string text = scene.describe_processes();
      return text.find("probe") == text.npos && text.find("sleep 1000") == text.npos;
    });
  }
};

TEST(Death, OfTheDriverEndsItsJob) {
  Cast cast;
  ::kill(cast.driver.pid, SIGKILL);
  EXPECT_TRUE(cast.job_gone()) << cast.scene.describe_processes();
  EXPECT_TRUE(cast.lives(cast.node.pid));
}

TEST(Death, OfAWorkerTakesItsChildren) {
  Cast cast;
  ASSERT_GT(cast.worker, 0) << cast.driver.seen;
  ::kill(cast.worker, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !cast.lives(cast.worker) && !cast.lives(cast.child); }))
      << cast.scene.describe_processes();
  EXPECT_TRUE(cast.lives(cast.node.pid));
}

TEST(Death, OfAnAgentTakesItsWorkers) {
  Cast cast;
  ::kill(cast.node.pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !cast.lives(cast.worker) && !cast.lives(cast.child); }))
      << cast.scene.describe_processes();
  EXPECT_TRUE(eventually([&] {
    return cast.scene.describe_processes().find("sleep 1000") == std::string::npos;
  })) << cast.scene.describe_processes();
  EXPECT_TRUE(cast.lives(cast.head.pid));
}

TEST(Death, OfTheHeadForLongTakesEverything) {
  Cast cast({"--head-patience", "1"});
  ::kill(cast.head.pid, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    std::string text = cast.scene.describe_processes();
    return text.find("redis") == text.npos && !cast.lives(cast.worker) && !cast.lives(cast.child);
  })) << cast.scene.describe_processes();
}

TEST(Death, OfTroupeRunTakesEverything) {
  Scene scene;
  auto run = scene.start({bin("troupe"), "run", "--nodes", "2", bin("probe"), "linger"});
  ASSERT_TRUE(run.wait_for("probe: lingering")) << run.seen;
  ::kill(run.pid, SIGKILL);
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

// The program would wait for good for what nobody can give it.
TEST(Death, OfTheOnlyNodeOfALocalClusterEndsTheProgram) {
  for (const char* member : {"node", "head"}) {
    Scene scene;
    auto run = scene.start({bin("troupe"), "run", "--local", "/bin/sleep", "1000"});
    std::string text;
    std::smatch at;
    std::regex program("(^|\\n)[0-9]+ /bin/sleep 1000"), part("([0-9]+) troupe " + std::string(member) + " ");
    ASSERT_TRUE(eventually([&] {
      text = scene.describe_processes();
      return std::regex_search(text, program) && std::regex_search(text, at, part);
    })) << text;
    ::kill(std::stoi(at[1]), SIGKILL);
    auto outcome = run.finish(120);
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.output;
    EXPECT_NE(outcome.output.find("the local cluster has ended"), std::string::npos) << outcome.output;
    EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
  }
}

TEST(ManyClusters, StartAndEndAtTheSameMoment) {
  constexpr int kClusters = 30;
  Scene scene;
  std::vector<Scene::Process> runs;
  for (int i = 0; i < kClusters; ++i)
    runs.push_back(scene.start({bin("troupe"), "run", "--local", bin("hello")}));
  for (auto& run : runs) {
    auto outcome = run.finish(180);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("42"), std::string::npos) << outcome.output;
  }
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

}  // namespace
}  // namespace troupe::test
