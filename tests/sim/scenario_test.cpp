// Scenario files in the simulator, each under many seeds. tests/integration/scenario plays them with real
// processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/sim/sim_stage.h"

namespace troupe::sim {
namespace {

std::vector<std::string> files() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(TROUPE_SCENARIOS)) {
    all.push_back(entry.path().stem().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

class Scenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(Scenarios, HoldUnderEverySeed) {
  auto scenario = read_scenario(std::string(TROUPE_SCENARIOS) + "/" + GetParam() + ".txt");
  ASSERT_TRUE(scenario) << scenario.error().message;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Outcome outcome = run_scenario(*scenario, {.seed = seed});
    ASSERT_FALSE(outcome.violation) << "seed " << seed << ": " << *outcome.violation;
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, Scenarios, ::testing::ValuesIn(files()),
                         [](const auto& info) { return info.param; });

TEST(ScenarioFile, SaysWhatIsWrong) {
  auto message = [](const std::string& text) {
    auto parsed = parse_scenario(text);
    return parsed ? "nothing" : parsed.error().message;
  };
  EXPECT_EQ(message("node n1 cpu 2\n\n# only a comment\n"), "nothing");
  EXPECT_EQ(message("\nnodes n1"), "line 2: a line begins with node, driver, at or expect");
  EXPECT_EQ(message("at noon kill head"), "line 1: at needs a time, such as 2s or 500ms");
  EXPECT_EQ(message("at 1s kill everything"), "line 1: kill what?");
  EXPECT_EQ(message("at 1s spawn a"), "line 1: by DRIVER is missing");
  EXPECT_EQ(message("expect actor a alive"), "line 1: within TIME is missing");
  EXPECT_EQ(message("expect node n1 dead within 1s"), "line 1: what state is \"dead\"?");
  EXPECT_EQ(message("node n1 cpu lots"), "line 1: cpu needs a number");
}

TEST(ScenarioFile, AnExpectationThatFailsIsToldWithItsLine) {
  auto scenario = parse_scenario("node n1 cpu 1\nexpect node n2 alive within 2s\n");
  ASSERT_TRUE(scenario);
  Outcome outcome = run_scenario(*scenario, {.seed = 1});
  ASSERT_TRUE(outcome.violation);
  EXPECT_NE(outcome.violation->find("line 2 (expect node n2 alive within 2s)"), std::string::npos)
      << *outcome.violation;
}

}  // namespace
}  // namespace troupe::sim
