// The simulator's command; tools/sim builds and runs it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/fault_point.h"
#include "tests/sim/simulation.h"

namespace {

using troupe::sim::Outcome;
using troupe::sim::RunOptions;

constexpr const char* kUsage =
    "usage: troupe-sim --seeds FIRST..LAST [--trace] [--counts]\n"
    "       --seeds 7        runs one seed\n"
    "       --trace          prints each step, also of seeds that hold\n"
    "       --counts         prints what was reached, and how often\n"
    "       --survey         goes on after a violation, and prints no traces\n"
    "       --favourite NAME the fault point that fires often\n"
    "       --for SECONDS    stops after that time\n";

void print_trace(const Outcome& outcome) {
  for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1, last = 0;
  const troupe::FaultPoint* favourite = nullptr;
  bool trace = false, counts = false, survey = false;
  double limit = 0;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--seeds" && i + 1 < argc) {
      std::string range = argv[++i];
      auto dots = range.find("..");
      first = std::strtoull(range.c_str(), nullptr, 10);
      last = dots == range.npos ? first : std::strtoull(range.c_str() + dots + 2, nullptr, 10);
    } else if (word == "--for" && i + 1 < argc) {
      limit = std::atof(argv[++i]);
    } else if (word == "--favourite" && i + 1 < argc) {
      for (troupe::FaultPoint* point : troupe::FaultPoints::all())
        if (std::strcmp(point->name(), argv[i + 1]) == 0) favourite = point;
      if (favourite == nullptr) {
        std::fprintf(stderr, "troupe-sim: there is no fault point %s\n", argv[i + 1]);
        return 2;
      }
      ++i;
    } else if (word == "--trace") {
      trace = true;
    } else if (word == "--counts") {
      counts = true;
    } else if (word == "--survey") {
      survey = true;
    } else {
      std::fputs(kUsage, word == "--help" ? stdout : stderr);
      return word == "--help" ? 0 : 2;
    }
  }
  if (last < first) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  auto begin = std::chrono::steady_clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::map<std::string, std::uint64_t> reached;
  std::uint64_t done = 0, steps = 0, violations = 0;
  double simulated = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    Outcome outcome = troupe::sim::run_seed({.seed = seed, .keep_trace = trace, .favourite = favourite});
    if (outcome.violation && survey) {
      std::printf("seed %llu: VIOLATION: %s\n", static_cast<unsigned long long>(seed),
                  outcome.violation->c_str());
      ++violations;
    } else if (outcome.violation) {
      // Once more, for its trace.
      if (!trace) outcome = troupe::sim::run_seed({.seed = seed, .keep_trace = true, .favourite = favourite});
      print_trace(outcome);
      std::printf("seed %llu: VIOLATION: %s\n", static_cast<unsigned long long>(seed),
                  outcome.violation ? outcome.violation->c_str() : "it did not come again");
      std::printf("sim: failed; again with: tools/sim --seeds %llu\n", static_cast<unsigned long long>(seed));
      return 1;
    }
    if (trace) print_trace(outcome);
    if (trace || first == last) {
      std::printf("seed %llu: trace %016llx, %llu steps, %.1f s simulated\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(outcome.hash),
                  static_cast<unsigned long long>(outcome.steps), outcome.seconds);
    }
    ++done;
    steps += outcome.steps;
    simulated += outcome.seconds;
    for (const auto& [what, times] : outcome.reached) reached[what] += times;
    if (limit > 0 && elapsed() > limit) break;
  }
  if (counts) {
    for (const auto& [what, times] : reached) {
      std::printf("%10llu  %s\n", static_cast<unsigned long long>(times), what.c_str());
    }
  }
  double took = elapsed();
  std::printf("sim: %s, %llu seeds in %.1f s (%.1f/s), %llu steps, %.0f s simulated, %llu violations\n",
              violations == 0 ? "ok" : "failed", static_cast<unsigned long long>(done), took,
              static_cast<double>(done) / took, static_cast<unsigned long long>(steps), simulated,
              static_cast<unsigned long long>(violations));
  return violations == 0 ? 0 : 1;
}
