// Objects on real clusters.
#include <gtest/gtest.h>

#include "support.h"

namespace troupe::test {
namespace {

void holds(const std::string& name, std::vector<std::string> node = {}, const char* nodes = "1",
           const char* faults = "") {
  Scene scene;
  scene.set("TROUPE_FAULTS", faults);
  std::vector<std::string> command = {bin("troupe"), "run", "--nodes", nodes, "--cpus", "8"};
  command.insert(command.end(), node.begin(), node.end());
  command.insert(command.end(), {bin("probe"), name});
  auto outcome = scene.run(command, 280);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("probe: ok"), std::string::npos) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

TEST(Objects, GoWhereReferencesGo) { holds("objects"); }
TEST(Objects, BetweenLightActors) { holds("objects_light"); }
TEST(Objects, CarryBigResultsAndTensors) { holds("objects_bulk"); }
TEST(Objects, OutliveTheirCreatorAndEndWithTheirHolders) { holds("objects_killed"); }
TEST(Objects, TensorsOfMessagesOutliveTheirSender) { holds("tensors_kept"); }
TEST(Objects, AThousandKillsLeaveNothing) { holds("objects_churn"); }
TEST(Objects, GoToDiskAndComeBack) {
  holds("objects_spill", {"--object-memory", "64MiB", "--object-disk", "64MiB"});
}
TEST(Objects, AreKeptByReferencesOnAnotherNode) { holds("objects_two_nodes", {}, "2"); }
// What is said to another node, lost with its connection, is said again.
TEST(Objects, AreGivenBackOverConnectionsThatBreak) {
  holds("objects_two_nodes", {}, "2", "objects.words.lose_request=0.3");
}
TEST(Objects, AreFetchedByOtherNodesAndLostWithTheirOwn) { holds("objects_far", {}, "4"); }
TEST(Objects, AreMadeAgainWhereTheCallerAllowedIt) { holds("objects_again", {}, "4"); }

}  // namespace
}  // namespace troupe::test
