#include "troupe/options.h"

#include "troupe/errors.h"

namespace troupe {

ActorOptions& ActorOptions::resource(const std::string& name, double amount) {
  if (auto set = resources_.set(name, amount); !set) throw_failure(set.error());
  if (name == "gpu" && amount > 1 && resources_.units("gpu") % Resources::kOne != 0) {
    throw_failure(Error(
        ErrorKind::invalid_argument,
        "gpus: an actor takes a share of one GPU (below 1) or whole GPUs, not " + std::to_string(amount)));
  }
  return *this;
}

}  // namespace troupe
