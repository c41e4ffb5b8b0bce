// Aligned columns for people. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/protocol/common.capnp.h"

namespace troupe::tools {

class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "cpu 4, gpu 0.5, memory 8.0GiB".
std::string show_amounts(capnp::List<wire::Amount>::Reader amounts);
// As "free of total" for each of the totals.
std::string show_free(capnp::List<wire::Amount>::Reader free, capnp::List<wire::Amount>::Reader total);
std::string show_age(std::int64_t since_unix);  // "3m12s"

}  // namespace troupe::tools
