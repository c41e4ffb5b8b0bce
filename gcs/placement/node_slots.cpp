#include "gcs/placement/node_slots.h"

#include <algorithm>

namespace troupe::gcs {
namespace {

const std::string kGpu = "gpu";
constexpr std::int64_t kMostSlots = 1024;

}  // namespace

Result<void> check_request(const Resources& wanted) {
  for (const auto& [name, units] : wanted.all()) {
    if (units < 0) return Error(ErrorKind::invalid_argument, "resource " + name + ": the amount is negative");
  }
  std::int64_t gpu = wanted.units(kGpu);
  if (gpu > Resources::kOne && gpu % Resources::kOne != 0) {
    return Error(ErrorKind::invalid_argument,
                 "resource gpu: ask for a part of one GPU (less than 1) or for whole GPUs");
  }
  return {};
}

NodeSlots::NodeSlots(Resources total) : total_(std::move(total)) {
  for (auto [name, units] : std::vector(total_.all())) {
    if (units < 0) total_.set_units(name, 0);
  }
  std::int64_t count = std::min(total_.units(kGpu) / Resources::kOne, kMostSlots);
  total_.set_units(kGpu, count * Resources::kOne);
  slots_.resize(static_cast<std::size_t>(count));
  free_ = total_;
}

bool NodeSlots::could_hold(const Resources& wanted) const { return total_.covers(wanted); }

bool NodeSlots::fits(const Resources& wanted) const {
  if (!free_.covers(wanted)) return false;
  std::int64_t gpu = wanted.units(kGpu);
  if (gpu == 0) return true;
  if (gpu < Resources::kOne) return slot_for_fraction(gpu) >= 0;
  return static_cast<std::int64_t>(free_slots()) >= gpu / Resources::kOne;
}

std::size_t NodeSlots::free_slots() const {
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.used == 0; }));
}

// The fullest shared slot that still has room, so that whole slots stay whole; else a free one.
int NodeSlots::slot_for_fraction(std::int64_t units) const {
  int best = -1;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].whole || slots_[i].used + units > Resources::kOne) continue;
    if (best < 0 || slots_[i].used > slots_[static_cast<std::size_t>(best)].used) best = static_cast<int>(i);
  }
  return best;
}

GpuSlots NodeSlots::take(const Resources& wanted) {
  GpuSlots gpus;
  std::int64_t gpu = wanted.units(kGpu);
  if (gpu > 0 && gpu < Resources::kOne) {
    gpus.push_back(static_cast<std::uint16_t>(slot_for_fraction(gpu)));
  } else {
    for (std::size_t i = 0; i < slots_.size() && gpu > 0; ++i) {
      if (slots_[i].used != 0) continue;
      gpus.push_back(static_cast<std::uint16_t>(i));
      gpu -= Resources::kOne;
    }
  }
  claim(wanted, gpus);
  return gpus;
}

bool NodeSlots::claim(const Resources& wanted, const GpuSlots& gpus) {
  if (!free_.covers(wanted)) return false;
  std::int64_t gpu = wanted.units(kGpu);
  bool whole = gpu >= Resources::kOne;
  std::size_t expected = whole ? static_cast<std::size_t>(gpu / Resources::kOne) : (gpu > 0 ? 1 : 0);
  if (gpus.size() != expected) return false;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i] >= slots_.size()) return false;
    if (std::count(gpus.begin(), gpus.end(), gpus[i]) != 1) return false;
    const Slot& slot = slots_[gpus[i]];
    if (whole ? slot.used != 0 : (slot.whole || slot.used + gpu > Resources::kOne)) return false;
  }
  for (std::uint16_t i : gpus) {
    slots_[i].used += whole ? Resources::kOne : gpu;
    slots_[i].whole = whole;
  }
  free_.subtract(wanted);
  return true;
}

void NodeSlots::give_back(const Resources& wanted, const GpuSlots& gpus) {
  std::int64_t gpu = wanted.units(kGpu);
  for (std::uint16_t i : gpus) {
    slots_[i].used -= std::min(gpu, Resources::kOne);
    if (slots_[i].used == 0) slots_[i].whole = false;
  }
  free_.add(wanted);
}

std::string NodeSlots::check() const {
  for (const auto& [name, units] : free_.all()) {
    if (units < 0) return name + " is negative";
    if (units > total_.units(name)) return name + " is more than the node has";
  }
  std::int64_t used = 0;
  for (const Slot& slot : slots_) {
    if (slot.used < 0 || slot.used > Resources::kOne) return "a gpu slot is over-given";
    if (slot.whole && slot.used != Resources::kOne) return "a whole gpu slot is shared";
    used += slot.used;
  }
  if (total_.units(kGpu) - free_.units(kGpu) != used) return "gpu slots and the sum of gpu differ";
  return {};
}

}  // namespace troupe::gcs
