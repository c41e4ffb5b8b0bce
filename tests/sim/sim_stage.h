// Scenario files in the simulator: a seed draws delays, the file says what happens.
#pragma once

#include "tests/sim/scenario.h"
#include "tests/sim/simulation.h"

namespace troupe::sim {

// Plays it and checks every rule after every step; a failed expectation counts as a violation.
Outcome run_scenario(const Scenario& scenario, const RunOptions& options);

}  // namespace troupe::sim
