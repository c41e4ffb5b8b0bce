// No interesting path is rare by accident: over some hundred seeds each of these is reached often.
#include <gtest/gtest.h>

#include "core/base/fault_point.h"
#include "tests/sim/simulation.h"

namespace troupe::sim {
namespace {

constexpr std::uint64_t kSeeds = 230;

// Those of real workers' files and journals are reached by other tests.
std::vector<FaultPoint*> simulated_points() {
  std::vector<FaultPoint*> points = FaultPoints::all();
  std::erase_if(points, [](FaultPoint* point) {
    std::string name = point->name();
    return name.rfind("head.", 0) != 0 && name.rfind("agent.", 0) != 0 && name.rfind("link.", 0) != 0;
  });
  return points;
}

const std::map<std::string, std::uint64_t>& reached() {
  static const auto all = [] {
    std::map<std::string, std::uint64_t> sum;
    auto points = simulated_points();
    for (std::uint64_t seed = 100'001; seed <= 100'000 + kSeeds; ++seed) {
      // Each point in its turn, so that those that few histories reach fire too.
      const FaultPoint* favourite = points[seed % points.size()];
      Outcome outcome = run_seed({.seed = seed, .favourite = favourite});
      EXPECT_FALSE(outcome.violation)
          << "seed " << seed << " --favourite " << favourite->name() << ": " << *outcome.violation;
      for (const auto& [what, times] : outcome.reached) sum[what] += times;
    }
    return sum;
  }();
  return all;
}

TEST(Coverage, EachPathIsReachedOften) {
  for (const char* what : {"spawned",
                           "found by get-or-create",
                           "spawn refused",
                           "resolved",
                           "found",
                           "killed",
                           "child spawned",
                           "news: alive",
                           "news: restarting",
                           "news: dead",
                           "news: infeasible",
                           "driver comes back",
                           "node joins",
                           "agent ends",
                           "second head",
                           "head fenced",
                           "constructor fails",
                           "worker dies early",
                           "launch fails",
                           "launch refused",
                           "starter fails",
                           "starter dies early",
                           "worker hangs",
                           "request fails: unavailable",
                           "request fails: not found",
                           "did: worker crashes",
                           "did: zygote crashes",
                           "did: node dies",
                           "did: node stops",
                           "did: node freezes",
                           "did: node partitioned",
                           "did: head dies",
                           "did: head freezes",
                           "did: store away",
                           "did: admin kills a job",
                           "did: admin removes a node",
                           "did: connection of a node cut",
                           "did: connection of a driver cut",
                           "did: light actor fails",
                           "did: nodes partitioned",
                           "did: driver and node partitioned",
                           "did: links between machines cut",
                           "did: cancel a call",
                           "did: drop a handle",
                           "news: node lost",
                           "link in a machine",
                           "link between machines",
                           "link accepted",
                           "call: one way",
                           "call: with a reply",
                           "call: by an actor",
                           "call: with retries",
                           "call: with a deadline",
                           "call runs",
                           "call runs again",
                           "call ends: value",
                           "call ends: actor error",
                           "call ends: actor died",
                           "call ends: deadline exceeded",
                           "call ends: cancelled",
                           "call ends: unavailable",
                           "call ends: infeasible",
                           "call ends: cycle of calls",
                           "failure told",
                           "failure heard",
                           "program ends for a failure"}) {
    auto at = reached().find(what);
    EXPECT_GE(at == reached().end() ? 0 : at->second, 5u) << what;
  }
}

TEST(Coverage, EachFaultPointFires) {
  (void)reached();
  auto points = simulated_points();
  EXPECT_GE(points.size(), 21u);
  for (FaultPoint* point : points) {
    EXPECT_GT(point->reached(), 100u) << point->name();
    EXPECT_GT(point->fired(), 0u) << point->name();
  }
}

}  // namespace
}  // namespace troupe::sim
