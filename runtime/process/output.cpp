#include "runtime/process/output.h"

#include <cstdio>

namespace troupe {

void print_output(const std::string& node, std::uint64_t process, const std::vector<std::string>& lines,
                  std::uint64_t dropped) {
  std::string text;
  std::string prefix = "(" + node + "/" + std::to_string(process) + ") ";
  for (const std::string& line : lines) text += prefix + line + "\n";
  if (dropped > 0) text += prefix + "… " + std::to_string(dropped) + " lines left out; see `troupe logs`\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace troupe
