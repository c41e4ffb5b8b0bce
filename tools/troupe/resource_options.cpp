#include "tools/troupe/resource_options.h"

#include <cmath>

#include "core/config/amounts.h"
#include "runtime/agent/machine.h"

namespace troupe::tools {
namespace {

void set(Resources& out, const std::string& name, double amount) {
  if (auto done = out.set(name, amount); !done) throw UsageError(done.error());
}

double amount_of(const char* option, const std::string& text) {
  auto amount = parse_amount(text);
  if (!amount) throw UsageError(std::string(option) + ": " + amount.error().message);
  return *amount;
}

}  // namespace

void ResourceOptions::add_to(CLI::App& app) {
  app.add_option("--cpus", cpus, "CPUs of the node; else those this process may use");
  app.add_option("--gpus", gpus, "GPU slots of the node; else the GPUs found; may exceed them, for tests");
  app.add_option("--memory", memory, "memory of the node, like 8GiB; else the machine's");
  app.add_option("--resource", others, "a further resource, NAME=AMOUNT; may be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--object-memory", object_memory,
                 "shared memory for objects, like 8GiB; else 30 % of the machine's; 0: none");
  app.add_option("--object-disk", object_disk,
                 "disk space for objects that the memory has no room for, like 100GiB; else 64 GiB");
}

Resources ResourceOptions::resources() const {
  Resources out = detect_resources();
  if (cpus) set(out, "cpu", amount_of("--cpus", *cpus));
  if (gpus) {
    double count = amount_of("--gpus", *gpus);
    if (count != std::floor(count) || count > 1024)
      throw UsageError("--gpus: a node has whole GPUs, at most 1024");
    set(out, "gpu", count);
  }
  if (memory) {
    auto bytes = parse_bytes(*memory);
    if (!bytes) throw UsageError("--memory: " + bytes.error().message);
    set(out, "memory", static_cast<double>(*bytes));
  }
  for (const auto& text : others) {
    auto one = parse_resource(text);
    if (!one) throw UsageError("--resource: " + one.error().message);
    if (out.units(one->first) != 0) throw UsageError("--resource: " + one->first + " was given twice");
    set(out, one->first, one->second);
  }
  return out;
}

std::vector<std::string> ResourceOptions::arguments() const {
  std::vector<std::string> out;
  auto add = [&](const char* name, const std::string& value) {
    out.push_back(name);
    out.push_back(value);
  };
  if (cpus) add("--cpus", *cpus);
  if (gpus) add("--gpus", *gpus);
  if (memory) add("--memory", *memory);
  if (object_memory) add("--object-memory", *object_memory);
  if (object_disk) add("--object-disk", *object_disk);
  for (const auto& one : others) add("--resource", one);
  return out;
}

}  // namespace troupe::tools
