// Shows the workers' output in the driver, each line behind a short prefix. Control thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

void print_output(const std::string& node, std::uint64_t process, const std::vector<std::string>& lines,
                  std::uint64_t dropped);

}  // namespace troupe
