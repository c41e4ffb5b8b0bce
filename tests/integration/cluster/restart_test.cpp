// The head dies and comes back, or is taken over, or a node falls silent: actors and their callers go on.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "support.h"

namespace troupe::test {
namespace {

class Restart : public ::testing::Test {
 protected:
  void SetUp() override {
    start_head();
    node_ = start_node("n1");
  }
  void start_head() {
    head_ = scene_.start({bin("troupe"), "head", "--grace", "8"});
    ASSERT_TRUE(head_.wait_for("listening on")) << "head: " << head_.seen;
  }
  Scene::Process start_node(const std::string& name) {
    auto node = scene_.start({bin("troupe"), "node", "--name", name, "--cpus", "8"});
    EXPECT_TRUE(node.wait_for("node: joined")) << node.seen;
    return node;
  }
  void start_driver() {
    driver_ = scene_.start({bin("probe"), "outlive"});
    ASSERT_TRUE(driver_.wait_for("probe: survivor ")) << driver_.seen;
    survivor_ = pid_after("probe: survivor ");
  }
  int pid_after(const std::string& text) {
    driver_.wait_for("\n", 5);
    auto at = driver_.seen.rfind(text);
    return at == driver_.seen.npos ? 0 : std::atoi(driver_.seen.c_str() + at + text.size());
  }
  // Sends a line to the driver and waits for its answer.
  void ask(const std::string& what, const std::string& answer) {
    driver_.seen.clear();
    driver_.write(what + "\n");
    ASSERT_TRUE(driver_.wait_for("probe: " + answer)) << what << ": " << driver_.seen;
  }
  // "alive" or "gone": whether there is a living node of that name.
  std::string node_state(const std::string& name) {
    std::istringstream list(scene_.run({bin("troupe"), "list", "nodes"}).output);
    std::string state;
    for (std::string line; std::getline(list, line);) {
      std::istringstream words(line);
      std::string id, called, is;
      if (words >> id >> called >> is && called == name && state != "alive") state = is;
    }
    return state;
  }
  void end() {
    driver_.write("end\n");
    auto outcome = driver_.finish();
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }

  Scene scene_;
  Scene::Process head_, node_, driver_;
  int survivor_ = 0;
};

TEST_F(Restart, OfTheHeadOnAnotherPortStopsNoCall) {
  start_driver();
  for (int round = 0; round < 3; ++round) {
    ::kill(head_.pid, SIGKILL);
    ask("count", "calls go on");
    start_head();
    ask("control", "control is back");
    ask("count", "calls go on");
  }
  ask("incarnation", "incarnation 1 on n1");
  auto list = scene_.run({bin("troupe"), "list", "actors", "--json"});
  EXPECT_NE(list.output.find("\"pid\": " + std::to_string(survivor_)), list.output.npos) << list.output;
  ask("kill", "killed");
  ask("control", "control is back");
  end();
}

TEST_F(Restart, RequestsMadeWhileTheHeadIsAwayAreServedByTheNext) {
  start_driver();
  ::kill(head_.pid, SIGKILL);
  driver_.write("control\n");
  start_head();
  ASSERT_TRUE(driver_.wait_for("control is back")) << driver_.seen;
  end();
}

TEST_F(Restart, AProgramStartedWhileTheHeadIsAwayWaitsForTheNext) {
  ::kill(head_.pid, SIGKILL);
  head_.finish();
  driver_ = scene_.start({bin("probe"), "outlive"});
  ASSERT_TRUE(driver_.wait_for("trying for ")) << driver_.seen;
  start_head();
  ASSERT_TRUE(driver_.wait_for("probe: survivor ")) << driver_.seen;
  end();
}

TEST_F(Restart, AnActorThatDiedWhileTheHeadWasAwayBeginsAgain) {
  start_driver();
  ::kill(head_.pid, SIGKILL);
  ::kill(survivor_, SIGKILL);
  ask("count", "calls go on");
  start_head();
  ask("incarnation", "incarnation 2 on n1");
  end();
}

TEST_F(Restart, AKillBeforeTheHeadsDeathStays) {
  start_driver();
  ask("kill", "killed");
  ::kill(head_.pid, SIGKILL);
  start_head();
  ask("control", "control is back");
  ask("incarnation", "incarnation 1 on n1");
  end();
}

TEST_F(Restart, ADriverThatDiedWhileTheHeadWasAwayLeavesNothing) {
  start_driver();
  ::kill(head_.pid, SIGKILL);
  ::kill(driver_.pid, SIGKILL);
  start_head();
  EXPECT_TRUE(eventually([&] { return scene_.describe_processes().find("probe") == std::string::npos; }, 60))
      << scene_.describe_processes();
  auto list = scene_.run({bin("troupe"), "list", "nodes"});
  EXPECT_NE(list.output.find("n1"), list.output.npos) << list.output;
}

TEST_F(Restart, ANodeThatDiedWhileTheHeadWasAwayIsLost) {
  start_driver();
  auto second = start_node("n2");  // nothing runs there
  ::kill(head_.pid, SIGKILL);
  ::kill(second.pid, SIGKILL);
  start_head();
  ask("control", "control is back");
  EXPECT_TRUE(eventually([&] { return node_state("n2") == "gone"; })) << node_state("n2");
  EXPECT_EQ(node_state("n1"), "alive");
  end();
}

// Unreachable is not dead: the machine goes on when its actor runs elsewhere already.
TEST_F(Restart, AStoppedNodeIsFencedAndComesBackEmpty) {
  auto second = start_node("n2");
  driver_ = scene_.start({bin("probe"), "drift"});
  ASSERT_TRUE(driver_.wait_for("probe: incarnation 1 on ")) << driver_.seen;
  int worker = pid_after(" pid ");
  bool first = driver_.seen.find(" on n1 ") != std::string::npos;
  auto& stopped = first ? node_ : second;
  ASSERT_GT(worker, 0);
  stop_process(stopped.pid);
  stop_process(worker);
  ask("", std::string("incarnation 2 on ") + (first ? "n2" : "n1"));
  ::kill(worker, SIGCONT);
  ::kill(stopped.pid, SIGCONT);
  EXPECT_TRUE(eventually([&] {
    auto all = scene_.processes();
    return std::find(all.begin(), all.end(), worker) == all.end();
  })) << scene_.describe_processes();
  EXPECT_TRUE(eventually([&] { return node_state(first ? "n1" : "n2") == "alive"; }));
  ask("", std::string("incarnation 2 on ") + (first ? "n2" : "n1"));
  end();
}

class Standby : public Restart {
 protected:
  void SetUp() override {}
  void start_redis() {
    std::string socket = scene_.folder() + "/redis.sock";
    // It renames itself, so that its scene does not find it: it ends with the test.
    redis_ = scene_.start({"/usr/bin/setpriv", "--pdeathsig", "KILL", "/usr/bin/redis-server", "--port", "0",
                           "--unixsocket", socket, "--appendonly", "yes", "--dir", scene_.folder()});
    ASSERT_TRUE(redis_.wait_for("ready to accept", 20) || redis_.wait_for("Ready to accept", 20))
        << redis_.seen;
    url_ = "unix://" + socket;
  }
  void start_head_on(const std::string& state) {
    head_ = scene_.start({bin("troupe"), "head", "--redis", url_, "--state", scene_.folder() + "/" + state});
    ASSERT_TRUE(head_.wait_for("listening on")) << "head: " << head_.seen;
  }
  Scene::Process start_standby_on(const std::string& state) {
    auto standby = scene_.start(
        {bin("troupe"), "head", "--standby", "--redis", url_, "--state", scene_.folder() + "/" + state});
    EXPECT_TRUE(standby.wait_for("standing by")) << standby.seen;
    return standby;
  }

  Scene::Process redis_;
  std::string url_;
};

TEST_F(Standby, TakesOverTheStateOfADeadHead) {
  start_head();
  node_ = start_node("n1");
  auto standby = scene_.start({bin("troupe"), "head", "--standby"});
  ASSERT_TRUE(standby.wait_for("standing by")) << standby.seen;
  start_driver();
  ::kill(head_.pid, SIGKILL);
  ASSERT_TRUE(standby.wait_for("listening on")) << standby.seen;
  ask("control", "control is back");
  ask("incarnation", "incarnation 1 on n1");
  end();
}

// Two heads on one Redis: the standby takes over from one that hangs, which then finds that it was replaced.
TEST_F(Standby, TakesOverASharedRedisAndFencesTheOther) {
  start_redis();
  start_head_on("a");
  node_ = start_node("n1");
  auto standby = start_standby_on("b");
  start_driver();
  stop_process(head_.pid);
  ASSERT_TRUE(standby.wait_for("listening on")) << standby.seen;
  ::kill(head_.pid, SIGCONT);
  auto old = head_.finish();
  EXPECT_EQ(old.status, 1) << old.output;
  EXPECT_NE(old.output.find("another head has taken over"), old.output.npos) << old.output;
  ask("control", "control is back");
  end();
}

// The active head hangs for good: its connections stay open, and yet everybody goes to the other one.
TEST_F(Standby, AHeadThatHangsIsLeft) {
  start_redis();
  start_head_on("a");
  node_ = start_node("n1");
  auto standby = start_standby_on("b");
  start_driver();
  stop_process(head_.pid);
  ASSERT_TRUE(standby.wait_for("listening on")) << standby.seen;
  ask("control", "control is back");
  ask("incarnation", "incarnation 1 on n1");
  EXPECT_EQ(node_state("n1"), "alive");
  end();
  ::kill(head_.pid, SIGCONT);
  EXPECT_EQ(head_.finish().status, 1);
}

}  // namespace
}  // namespace troupe::test
