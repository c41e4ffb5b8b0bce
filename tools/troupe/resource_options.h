// --cpus, --gpus, --memory, --resource, --object-memory and --object-disk, for the commands that start nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/resources.h"
#include "tools/troupe/command.h"

namespace troupe::tools {

struct ResourceOptions {
  std::optional<std::string> cpus, gpus, memory;
  std::optional<std::string> object_memory, object_disk;  // of the node's object store, no resources
  std::vector<std::string> others;

  void add_to(CLI::App& app);
  // What the machine has, overridden by what was given; throws UsageError.
  Resources resources() const;
  bool given() const { return cpus || gpus || memory || object_memory || object_disk || !others.empty(); }
  std::vector<std::string> arguments() const;  // the same options for another command
};

}  // namespace troupe::tools
