#include "core/base/resources.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace troupe {
namespace {

constexpr double kMost = 9e14;  // × 10,000 still fits

auto find(auto& amounts, const std::string& name) {
  return std::lower_bound(amounts.begin(), amounts.end(), name,
                          [](const auto& entry, const std::string& key) { return entry.first < key; });
}

}  // namespace

Result<void> Resources::set(const std::string& name, double amount) {
  if (name.empty()) return Error(ErrorKind::invalid_argument, "a resource needs a name, like tpu=1");
  if (!std::isfinite(amount) || amount < 0 || amount > kMost) {
    return Error(
        ErrorKind::invalid_argument,
        "resource " + name + ": the amount must be between 0 and 9e14, not " + std::to_string(amount));
  }
  auto units = static_cast<std::int64_t>(std::llround(amount * kOne));
  if (units == 0 && amount > 0) {
    return Error(ErrorKind::invalid_argument, "resource " + name + ": the smallest amount is 0.0001");
  }
  set_units(name, units);
  return {};
}

void Resources::set_units(const std::string& name, std::int64_t units) {
  auto at = find(amounts_, name);
  bool present = at != amounts_.end() && at->first == name;
  if (units == 0) {
    if (present) amounts_.erase(at);
  } else if (present) {
    at->second = units;
  } else {
    amounts_.insert(at, {name, units});
  }
}

std::int64_t Resources::units(const std::string& name) const {
  auto at = find(amounts_, name);
  return at != amounts_.end() && at->first == name ? at->second : 0;
}

bool Resources::covers(const Resources& wanted) const {
  return std::all_of(wanted.amounts_.begin(), wanted.amounts_.end(),
                     [&](const auto& entry) { return units(entry.first) >= entry.second; });
}

void Resources::add(const Resources& other) {
  for (const auto& [name, amount] : other.amounts_) set_units(name, units(name) + amount);
}

void Resources::subtract(const Resources& other) {
  for (const auto& [name, amount] : other.amounts_) set_units(name, units(name) - amount);
}

std::string Resources::describe() const {
  std::string text;
  for (const auto& [name, units] : amounts_) {
    char number[32];
    std::snprintf(number, sizeof number, "%.10g", static_cast<double>(units) / kOne);
    if (!text.empty()) text += ", ";
    text += name + " " + number;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace troupe
