#include "tools/troupe/table.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/base/resources.h"
#include "core/config/amounts.h"

namespace troupe::tools {
namespace {

std::string show(const std::string& name, std::int64_t units) {
  if (name == "memory") return show_bytes(units / Resources::kOne);
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", static_cast<double>(units) / Resources::kOne);
  return text;
}

}  // namespace

Table::Table(std::vector<std::string> titles) { add(std::move(titles)); }

void Table::add(std::vector<std::string> row) {
  for (auto& cell : row) std::replace(cell.begin(), cell.end(), '\n', ' ');
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string show_amounts(capnp::List<wire::Amount>::Reader amounts) {
  std::string out;
  for (auto one : amounts) {
    if (!out.empty()) out += ", ";
    std::string name = one.getName().cStr();
    out += name + " " + show(name, one.getUnits());
  }
  return out;
}

std::string show_free(capnp::List<wire::Amount>::Reader free, capnp::List<wire::Amount>::Reader total) {
  std::string out;
  for (auto one : total) {
    std::int64_t left = 0;
    for (auto other : free) {
      if (other.getName() == one.getName()) left = other.getUnits();
    }
    if (!out.empty()) out += ", ";
    std::string name = one.getName().cStr();
    out += name + " " + show(name, left) + "/" + show(name, one.getUnits());
  }
  return out;
}

std::string show_age(std::int64_t since_unix) {
  if (since_unix <= 0) return "-";
  long long seconds = std::max<long long>(0, static_cast<long long>(std::time(nullptr)) - since_unix);
  char text[48];
  if (seconds < 60)
    std::snprintf(text, sizeof text, "%llds", seconds);
  else if (seconds < 3600)
    std::snprintf(text, sizeof text, "%lldm%02llds", seconds / 60, seconds % 60);
  else if (seconds < 86400)
    std::snprintf(text, sizeof text, "%lldh%02lldm", seconds / 3600, seconds / 60 % 60);
  else
    std::snprintf(text, sizeof text, "%lldd%02lldh", seconds / 86400, seconds / 3600 % 24);
  return text;
}

}  // namespace troupe::tools
