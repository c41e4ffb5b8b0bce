// The benchmark harness: a case measures a value and, where one exists, its floor, alternating within the
// same run; medians go out as one JSON object {case, value, unit, floor, ratio, runs, machine}.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace troupe::bench {

struct Case {
  const char* name;
  const char* unit;  // µs, 1/s, bytes, % of one core
  const char* what;
  std::function<double()> value;
  std::function<double()> floor;  // may be empty
  const char* poll_us = nullptr;  // TROUPE_POLL_US for the driver and its workers
  bool cluster = true;            // needs a troupe::Runtime
  bool remote = false;            // needs the far hosts of tools/bench/hosts
  int runs = 5;
};

std::vector<Case> raw_cases();
std::vector<Case> call_cases();
std::vector<Case> durable_cases();
std::vector<Case> group_cases();
std::vector<Case> object_cases();
std::vector<Case> object_host_cases();
std::vector<Case> reform_cases();
std::vector<Case> spawn_cases();
std::vector<Case> rest_cases();

double seconds_now();
double median(std::vector<double> values);

// Keeps two processes busy while it lives.
class Burners {
 public:
  Burners();
  ~Burners();

 private:
  int pids_[2];
};

double raw_socket_us();  // 64-byte round trip between two processes over a Unix socket
double raw_tcp_us();     // the same over TCP: to the second host's echo (TROUPE_BENCH_ECHO), else loopback

// The executable of this process, and how long it takes to start and reap it when it ends at once: starts a
// second.
double start_and_reap_rate();

}  // namespace troupe::bench
