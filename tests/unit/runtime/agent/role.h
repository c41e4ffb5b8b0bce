// The test program plays the part of a job's program too: with TROUPE_ROLE set it enters the role before main
// and then behaves as TROUPE_TEST_BODY says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/os/process.h"

namespace troupe::test {

// This program, started with a body:
//   "wait"         until the channel ends, which it reports on stdout as "channel ended"
//   "family"       starts a child in its group and one in a session of its own; all wait for ever
//   "exit3"        writes two lines to stderr and exits with status 3
//   "devices"      prints CUDA_VISIBLE_DEVICES and waits
//   "spam"         prints 5,000 lines and waits
//   "register"     registers as a worker and hosts actors that do nothing; an actor whose class is "Bad"
//   fails "threads"      has started a thread before it enters the role, then as "wait" "deaf"         never
//   enters the role and exits with status 4
SpawnOptions this_program(const std::string& body);
std::vector<std::string> environment_of(const std::string& body);

inline constexpr std::uint64_t kFingerprint = 42;

}  // namespace troupe::test
