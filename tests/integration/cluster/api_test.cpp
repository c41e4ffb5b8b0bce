// The actor API on real clusters: each case of the probe program, and what the command line shows.
#include <gtest/gtest.h>

#include "support.h"

namespace troupe::test {
namespace {

class Probe : public testing::TestWithParam<const char*> {};

TEST_P(Probe, HoldsOnALocalClusterOfTwoNodes) {
  Scene scene;
  auto outcome = scene.run(
      {bin("troupe"), "run", "--nodes", "2", "--cpus", "4", "--gpus", "2", bin("probe"), GetParam()});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("probe: ok"), std::string::npos) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

INSTANTIATE_TEST_SUITE_P(Cases, Probe,
                         testing::Values("api", "api_light", "names", "resources", "restart", "constructor",
                                         "light_blocking", "supervision", "memory", "leave"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Durable, Probe,
                         testing::Values("durable_node", "durable_light", "durable_shared", "durable_store",
                                         "durable_shared_node_lost", "durable_store_node_lost",
                                         "durable_state_node", "durable_state_shared", "durable_state_store"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Groups, Probe,
                         testing::Values("group", "group_mismatch", "group_loss", "group_replacement",
                                         "group_missing", "group_leave", "group_two", "group_split"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Supervision, AFailureNobodyDealsWithEndsTheProgram) {
  Scene scene;
  auto outcome = scene.run({bin("troupe"), "run", bin("probe"), "careless"});
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("this program ends"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("SIGKILL"), std::string::npos) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

TEST(Hello, PrintsItsSum) {
  Scene scene;
  auto outcome = scene.run({bin("troupe"), "run", bin("hello")});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("42"), std::string::npos) << outcome.output;
}

TEST(Output, OfWorkersReachesTheDriverWithAPrefix) {
  Scene scene;
  auto run = scene.start({bin("troupe"), "run", bin("probe"), "output"});
  EXPECT_TRUE(run.wait_for("line 2 of the worker")) << run.seen;
  EXPECT_NE(run.seen.find("(n1/"), std::string::npos) << run.seen;
  run.write("\n");
  EXPECT_EQ(run.finish().status, 0) << run.seen;
}

class Digits : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sync, Digits, testing::Values("allreduce", "ps"),
                         [](auto& info) { return std::string(info.param); });

TEST_P(Digits, AKilledTrainerChangesNothing) {
  Scene scene;
  auto outcome = scene.run({bin("troupe"), "run", "--nodes", "2", "--cpus", "4", bin("digits"), "--sync",
                            GetParam(), "--steps", "200", "--kill", "--kill-node", "--verify"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("identical=yes"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("restarts=0"), std::string::npos) << outcome.output;
}

// What the README promises.
TEST_P(Digits, TheResultIsTheOneOfTheReadme) {
  Scene scene;
  auto outcome = scene.run(
      {bin("troupe"), "run", "--nodes", "2", "--cpus", "4", bin("digits"), "--sync", GetParam(), "--kill"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  auto accuracy = outcome.output.find("digits: ok accuracy=");
  ASSERT_NE(accuracy, std::string::npos) << outcome.output;
  EXPECT_GE(std::stod(outcome.output.substr(accuracy + 20)), 0.94) << outcome.output;
  EXPECT_NE(outcome.output.find("restarts=1"), std::string::npos) << outcome.output;
}

TEST(CommandLine, BenchMeasuresACase) {
  Scene scene;
  auto outcome = scene.run({bin("troupe"), "bench", "actor_sync", "--runs", "1", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("\"case\":\"actor_sync\""), std::string::npos) << outcome.output;
  EXPECT_NE(scene.run({bin("troupe"), "bench", "--list"}).output.find("durable_async"), std::string::npos);
}

TEST(CommandLine, HeadNodeListStatusDown) {
  Scene scene;
  auto head = scene.start({bin("troupe"), "head"});
  ASSERT_TRUE(head.wait_for("listening on")) << head.seen;
  auto node = scene.start(
      {bin("troupe"), "node", "--name", "alpha", "--cpus", "3", "--gpus", "1", "--resource", "tpu=2"});
  ASSERT_TRUE(eventually([&] {
    auto list = scene.run({bin("troupe"), "list", "nodes", "--json"});
    return list.output.find("alpha") != std::string::npos;
  }));
  EXPECT_EQ(scene.run({bin("troupe"), "status"}).status, 0);
  auto actors = scene.run({bin("troupe"), "list", "actors", "--json"});
  EXPECT_EQ(actors.status, 0) << actors.output;
  auto run = scene.run({bin("troupe"), "run", bin("hello")});
  EXPECT_EQ(run.status, 0) << run.output;
  auto jobs = scene.run({bin("troupe"), "list", "jobs", "--json"});
  EXPECT_NE(jobs.output.find("hello"), std::string::npos) << jobs.output;
  EXPECT_EQ(scene.run({bin("troupe"), "down"}).status, 0);
  EXPECT_EQ(node.finish().status, 0) << node.seen;
  EXPECT_EQ(head.finish().status, 0) << head.seen;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

}  // namespace
}  // namespace troupe::test
