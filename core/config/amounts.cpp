#include "core/config/amounts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace troupe {
namespace {

constexpr double kMostBytes = 9e14;

// The number at the front of `text`; `rest` receives what follows.
bool number_before(const std::string& text, double& number, std::string& rest) {
  const char* end = text.data() + text.size();
  auto [after, bad] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (bad != std::errc{} || !std::isfinite(number) || number < 0) return false;
  rest.assign(after, end);
  return true;
}

double unit_of(std::string unit) {
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.empty() || unit == "b") return 1;
  auto power = std::string("kmgt").find(unit[0]);
  if (power == std::string::npos) return 0;
  std::string rest = unit.substr(1);
  double base = rest == "b" ? 1000 : 1024;
  if (!rest.empty() && rest != "b" && rest != "i" && rest != "ib") return 0;
  return std::pow(base, static_cast<double>(power + 1));
}

}  // namespace

Result<double> parse_amount(const std::string& text) {
  double number = 0;
  std::string rest;
  if (!number_before(text, number, rest) || !rest.empty()) {
    return Error(ErrorKind::invalid_argument,
                 "'" + text + "' is not an amount: write a number like 4 or 0.5");
  }
  return number;
}

Result<std::int64_t> parse_bytes(const std::string& text) {
  double number = 0;
  std::string rest;
  double unit = number_before(text, number, rest) ? unit_of(rest) : 0;
  if (unit == 0 || number * unit > kMostBytes) {
    return Error(ErrorKind::invalid_argument,
                 "'" + text + "' is not an amount of memory: write it like 8GiB");
  }
  return static_cast<std::int64_t>(std::llround(number * unit));
}

Result<std::pair<std::string, double>> parse_resource(const std::string& text) {
  auto equals = text.find('=');
  std::string name = text.substr(0, equals);
  auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/'; };
  if (equals == text.npos || name.empty() || !std::all_of(name.begin(), name.end(), fits)) {
    return Error(ErrorKind::invalid_argument,
                 "'" + text + "' is not a resource: write NAME=AMOUNT, like tpu=1");
  }
  if (name == "cpu" || name == "gpu" || name == "memory") {
    return Error(ErrorKind::invalid_argument,
                 "'" + text + "': use --" + name + (name == "memory" ? "" : "s") + " for this resource");
  }
  auto amount = parse_amount(text.substr(equals + 1));
  if (!amount) return amount.error();
  return std::pair(name, *amount);
}

std::string show_bytes(std::int64_t bytes) {
  double value = static_cast<double>(bytes);
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f%s" : "%.1f%s", value, units[unit]);
  return text;
}

}  // namespace troupe
