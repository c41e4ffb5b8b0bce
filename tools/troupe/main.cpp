// The `troupe` command.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "runtime/worker/worker_start.h"
#include "tools/troupe/command.h"

namespace troupe::tools {
namespace {

const Command kCommands[] = {
    {"head", "start a cluster's head on this machine", add_head},
    {"node", "add this machine to a cluster", add_node},
    {"run", "run a program on the current cluster, or on one of its own", add_run},
    {"status", "show the state of the cluster", add_status},
    {"list", "list nodes, actors, jobs or objects", add_list},
    {"memory", "show what the nodes' object stores use", add_memory},
    {"logs", "show what an actor or a job has written", add_logs},
    {"kill", "end an actor, a job or a node", add_kill},
    {"down", "end the cluster", add_down},
    {"bench", "measure this machine and Troupe on it", add_bench},
    {"completion", "print a completion script for the shell", add_completion},
    {"version", "print the version", add_version},
};

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// "; did you mean X?" for the nearest of the candidates, if it is near.
std::string suggestion(const std::string& wrong, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = 3;
  for (const auto& one : candidates) {
    if (std::size_t d = distance(wrong, one); d < least) {
      least = d;
      best = one;
    }
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

int usage_error(const CLI::App& app, const std::string& message) {
  std::string name = app.get_parent() != nullptr ? "troupe " + app.get_name() : "troupe";
  std::fprintf(stderr, "%s: %s\nsee `%s --help`\n", name.c_str(), message.c_str(), name.c_str());
  return kUsage;
}

int parse_error(CLI::App& app, const CLI::ParseError& error) {
  auto chosen = app.get_subcommands();
  const CLI::App& at = chosen.empty() ? app : *chosen.front();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    std::fputs(at.help().c_str(), stdout);
    return kOk;
  }
  if (auto extras = app.remaining(true);
      dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty()) {
    const auto& extra = extras.front();
    if (extra.rfind("-", 0) == 0) {
      auto name = extra.substr(0, extra.find('='));
      return usage_error(at, "unknown option " + name + suggestion(name, option_names(at)));
    }
    std::vector<std::string> names;
    for (const auto& command : kCommands) names.push_back(command.name);
    if (chosen.empty()) return usage_error(at, "unknown command " + extra + suggestion(extra, names));
    return usage_error(at, "unexpected argument " + extra);
  }
  return usage_error(at, error.what());
}

// `troupe run --nodes 2 -- PROGRAM`: CLI11 would end the subcommand at the separator, which says nothing new.
void drop_separator(std::vector<std::string>& args, const CLI::App& app) {
  if (args.empty()) return;
  auto named = app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == args[0]; });
  if (named.empty() || !named[0]->get_prefix_command()) return;
  const CLI::App* sub = named[0];
  for (std::size_t i = 1; i < args.size() && args[i].rfind("-", 0) == 0; ++i) {
    if (args[i] == "--") {
      args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    const auto* option = args[i].find('=') == std::string::npos ? sub->get_option_no_throw(args[i]) : nullptr;
    if (option != nullptr && option->get_expected_min() > 0) ++i;
  }
}

int run_command(int argc, char** argv) {
  CLI::App app("Distributed actors in C++: runs and looks after a cluster.", "troupe");
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", kVersion, "print the version");
  std::vector<std::pair<CLI::App*, Run>> runs;
  for (const auto& command : kCommands) {
    auto* sub = app.add_subcommand(command.name, command.help);
    runs.emplace_back(sub, command.add(*sub));
  }
  if (argc < 2) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  std::vector<std::string> args(argv + 1, argv + argc);
  drop_separator(args, app);
  std::reverse(args.begin(), args.end());  // as CLI11 wants them
  try {
    app.parse(args);
  } catch (const CLI::CallForVersion&) {
    std::printf("%s\n", kVersion);
    return kOk;
  } catch (const CLI::ParseError& error) {
    return parse_error(app, error);
  }
  for (auto& [sub, run] : runs) {
    if (!sub->parsed()) continue;
    try {
      return run();
    } catch (const UsageError& error) {
      return usage_error(*sub, error.what());
    } catch (const Failed& error) {
      std::fprintf(stderr, "troupe %s: %s\n", sub->get_name().c_str(), error.what());
      return kFailed;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "troupe %s: unexpected error: %s\n", sub->get_name().c_str(), error.what());
      return kFailed;
    }
  }
  return usage_error(app, "no command was given");
}

}  // namespace
}  // namespace troupe::tools

int main(int argc, char** argv) {
  // The node agent starts workers of programs that cannot be forked through this executable.
  if (troupe::enter_worker_role()) return troupe::tools::kUsage;
  return troupe::tools::run_command(argc, argv);
}
