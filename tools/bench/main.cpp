// troupe-bench CASE… [--json] [--runs N]: see tools/bench/harness.h. Run through `troupe bench`, which
// provides a cluster of its own.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench/actors.h"
#include "tools/bench/harness.h"

namespace troupe::bench {

int serve_echo(int port);
int second_driver();
int cold_put();
int serve_sink(int port);

namespace {

// Holds actors for tools/bench/head_restart: each line of input asks for one more, and is answered when that
// has answered a call.
int hold(int actors) {
  std::vector<Handle<Echo>> kept;
  std::vector<Future<int>> answers;
  for (int i = 0; i < actors; ++i) {
    kept.push_back(spawn<Echo>(ActorOptions().light()));
    answers.push_back(kept.back().call<&Echo::add>(1));
  }
  for (auto& answer : answers) answer.get();
  std::printf("holding %d\n", actors);
  std::fflush(stdout);
  char line[16];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    auto one = spawn<Echo>(ActorOptions().light());
    int answer = one.call<&Echo::add>(1).get();
    one.kill().get();
    std::printf("answered %d\n", answer);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t n = values.size();
  return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

namespace {

std::string machine() {
  std::string model = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  utsname name{};
  ::uname(&name);
  return std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " cores, " + model + ", Linux " + name.release;
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (auto part : {raw_cases, call_cases, durable_cases, group_cases, reform_cases, object_cases,
                    object_host_cases, spawn_cases, rest_cases}) {
    for (auto& one : part()) out.push_back(std::move(one));
  }
  return out;
}

void print_text(const nlohmann::json& result) {
  std::printf("%-20s %12.4g %-4s", result["case"].get<std::string>().c_str(), result["value"].get<double>(),
              result["unit"].get<std::string>().c_str());
  if (!result["floor"].is_null()) {
    std::printf("  floor %10.4g  ratio %8.4g", result["floor"].get<double>(), result["ratio"].get<double>());
  }
  std::printf("\n");
}

int run(const Case& one, int runs, bool json) {
  std::vector<double> values, floors;
  for (int i = 0; i < runs; ++i) {
    if (one.floor) floors.push_back(one.floor());
    values.push_back(one.value());
    if (!json && ::isatty(2)) std::fprintf(stderr, "\r%s: run %d of %d", one.name, i + 1, runs);
  }
  if (!json && ::isatty(2)) std::fprintf(stderr, "\r\033[K");
  nlohmann::json result;
  double value = median(values);
  result["case"] = one.name;
  result["value"] = value;
  result["unit"] = one.unit;
  result["floor"] = one.floor ? nlohmann::json(median(floors)) : nlohmann::json();
  result["ratio"] = one.floor ? nlohmann::json(value / median(floors)) : nlohmann::json();
  result["runs"] = values;
  result["machine"] = machine();
  if (json)
    std::printf("%s\n", result.dump().c_str());
  else
    print_text(result);
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  using namespace troupe;
  using namespace troupe::bench;
  if (argc == 2 && std::strcmp(argv[1], "--exit-at-once") == 0) return 0;
  if (argc == 3 && std::strcmp(argv[1], "--echo") == 0) return serve_echo(std::atoi(argv[2]));
  if (argc == 3 && std::strcmp(argv[1], "--sink") == 0) return serve_sink(std::atoi(argv[2]));
  if (std::getenv("TROUPE_ROLE") != nullptr)
    Runtime worker(argc, argv, classes<Echo, Caller, Saved, Rank, Blob>);  // never returns
  bool json = false, list = false, second = false, cold = false;
  int runs = 0, held = 0;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--json")
      json = true;
    else if (arg == "--list")
      list = true;
    else if (arg == "--second-driver")
      second = true;
    else if (arg == "--cold-put")
      cold = true;
    else if (arg == "--hold" && i + 1 < argc)
      held = std::atoi(argv[++i]);
    else if (arg == "--runs" && i + 1 < argc)
      runs = std::atoi(argv[++i]);
    else
      names.push_back(arg);
  }
  auto cases = all_cases();
  if (list) {
    for (auto& one : cases)
      std::printf("%-20s %-4s %s%s\n", one.name, one.unit, one.what, one.remote ? " (remote)" : "");
    return 0;
  }
  std::vector<const Case*> chosen;
  for (auto& name : names) {
    auto at = std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return name == c.name; });
    if (at == cases.end()) {
      std::fprintf(stderr, "troupe-bench: there is no case %s; --list shows them\n", name.c_str());
      return 2;
    }
    chosen.push_back(&*at);
  }
  if (chosen.empty() && !second && !cold && held == 0) {
    std::fprintf(stderr, "troupe-bench: name a case; --list shows them\n");
    return 2;
  }
  bool cluster = second || cold || held > 0;
  for (const Case* one : chosen) {
    cluster |= one->cluster;
    if (one->poll_us != nullptr) ::setenv("TROUPE_POLL_US", one->poll_us, 1);
  }
  try {
    std::unique_ptr<Runtime> runtime;
    if (cluster) runtime = std::make_unique<Runtime>(argc, argv, classes<Echo, Caller, Saved, Rank, Blob>);
    if (second) return second_driver();
    if (cold) return cold_put();
    if (held > 0) return hold(held);
    for (const Case* one : chosen) run(*one, runs > 0 ? runs : one->runs, json);
  } catch (const Failure& e) {
    std::fprintf(stderr, "troupe-bench: %s\n", e.what());
    return 1;
  }
  return 0;
}
