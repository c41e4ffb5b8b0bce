// Exact resources: fixed point, 10,000 units are one CPU, one GPU, one of a custom resource, one byte of
// memory. Fractions add up; nothing drifts and nothing becomes negative.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace troupe {

class Resources {
 public:
  static constexpr std::int64_t kOne = 10'000;

  // Rounds to 1/10,000; an error for negative, not finite or absurdly large amounts, or an empty name.
  Result<void> set(const std::string& name, double amount);
  void set_units(const std::string& name, std::int64_t units);
  std::int64_t units(const std::string& name) const;  // 0 when absent
  double amount(const std::string& name) const { return static_cast<double>(units(name)) / kOne; }

  bool empty() const { return amounts_.empty(); }
  bool covers(const Resources& wanted) const;  // at least as much of each
  void add(const Resources& other);
  void subtract(const Resources& other);  // precondition: covers(other)
  const std::vector<std::pair<std::string, std::int64_t>>& all() const { return amounts_; }
  std::string describe() const;  // "cpu 4, gpu 0.5"
  bool operator==(const Resources&) const = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> amounts_;  // sorted by name, no zeros
};

}  // namespace troupe
