// The scenario files of the simulator, with real processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/integration/scenario/process_stage.h"

namespace troupe::test {
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

TEST_P(Scenarios, HoldWithRealProcesses) {
  auto scenario = sim::read_scenario(std::string(TROUPE_SCENARIOS) + "/" + GetParam() + ".txt");
  ASSERT_TRUE(scenario) << scenario.error().message;
  ProcessStage stage;
  Result<void> played = sim::play(*scenario, stage);
  EXPECT_TRUE(played) << played.error().message;
}

INSTANTIATE_TEST_SUITE_P(Processes, Scenarios, ::testing::ValuesIn(files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troupe::test
