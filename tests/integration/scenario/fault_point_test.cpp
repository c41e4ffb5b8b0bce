// Fault points in real processes, turned on by the environment.
#include <gtest/gtest.h>

#include "tests/integration/cluster/support.h"

namespace troupe::test {
namespace {

Outcome run_with(const std::string& faults, const std::string& what) {
  Scene scene;
  scene.set("TROUPE_FAULTS", faults);
  scene.set("TROUPE_FAULTS_SEED", "7");
  Outcome outcome = scene.run({bin("troupe"), "run", "--local", "--cpus", "4", bin("probe"), what}, 120);
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
  return outcome;
}

TEST(FaultPoints, RepeatedAndLateMessagesChangeNothing) {
  Outcome outcome = run_with(
      "link.reply_twice=0.3/head.place.twice=0.5/head.destroy.twice=0.5/agent.report.twice=0.5/"
      "agent.report.delay=0.2",
      "api");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(FaultPoints, ALostCallEnds) {
  Outcome outcome = run_with("link.lose_request=1*1", "lossy");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(FaultPoints, ALostReplyEndsItsCall) {
  Outcome outcome = run_with("link.lose_reply=1*1", "lossy");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(FaultPoints, ALostAnswerOfTheStoreIsMadeGood) {
  Outcome outcome = run_with("head.store.lose_reply=0.2/head.store.lose_request=0.2", "api_light");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

}  // namespace
}  // namespace troupe::test
