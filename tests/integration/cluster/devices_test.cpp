// Tensors of GPUs between real processes, on fake devices.
#include <gtest/gtest.h>
#include <unistd.h>

#include "support.h"

namespace troupe::test {
namespace {

void holds(const std::string& name, const char* nodes = "1", const char* memory = "1073741824") {
  Scene scene;
  std::string mark = "T" + std::to_string(::getpid());  // no other test's
  scene.set("TROUPE_FAKE_DEVICES", mark + "a," + mark + "b");
  scene.set("TROUPE_FAKE_MEMORY", memory);
  auto outcome = scene.run(
      {bin("troupe"), "run", "--nodes", nodes, "--cpus", "8", "--gpus", "2", bin("probe"), name}, 280);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("probe: ok"), std::string::npos) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

TEST(Devices, TensorsArePassedOnOneNodeWithoutACopy) { holds("devices"); }
TEST(Devices, WrongDevicesAndSharesAreTypedErrors) { holds("device_errors", "1", "1048576"); }
TEST(Devices, HalfAGpuIsHalfItsMemory) { holds("devices_half", "1", "1048576"); }
TEST(Devices, InsideOfAProcessThePointerGoes) { holds("devices_light"); }
TEST(Devices, TensorsAreCopiedToOtherNodes) { holds("devices_far", "2"); }
TEST(Devices, TwoHundredKillsLeaveNothing) { holds("devices_churn"); }

}  // namespace
}  // namespace troupe::test
