// The parts of the `troupe` command. Each subcommand lies in a file of its own and is named in the table of
// main.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "core/base/error.h"

namespace troupe::tools {

inline constexpr const char* kVersion = "0.1.0";
inline constexpr int kOk = 0, kFailed = 1, kUsage = 2;

// What runs once the arguments were parsed; its result is the exit status. Throws UsageError, or Failed.
using Run = std::function<int()>;

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App& app);  // adds its options to `app`, the subcommand
};

// One clear line, exit status 1.
struct Failed : std::runtime_error {
  explicit Failed(const std::string& message) : std::runtime_error(message) {}
  explicit Failed(const Error& error) : std::runtime_error(error.message) {}
};
// One clear line and a hint at --help, exit status 2.
struct UsageError : std::runtime_error {
  explicit UsageError(const std::string& message) : std::runtime_error(message) {}
  explicit UsageError(const Error& error) : std::runtime_error(error.message) {}
};

Run add_head(CLI::App& app);
Run add_node(CLI::App& app);
Run add_run(CLI::App& app);
Run add_status(CLI::App& app);
Run add_list(CLI::App& app);
Run add_memory(CLI::App& app);
Run add_logs(CLI::App& app);
Run add_kill(CLI::App& app);
Run add_down(CLI::App& app);
Run add_completion(CLI::App& app);
Run add_version(CLI::App& app);
Run add_bench(CLI::App& app);

}  // namespace troupe::tools
