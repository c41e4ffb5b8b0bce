// The line that shows how training goes: rewritten in place on a terminal, now and then a line elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace digits {

class ProgressLine {
 public:
  ProgressLine(std::string title, std::uint32_t steps);
  void show(std::uint32_t step, double loss, double accuracy, std::uint64_t samples);
  void note(const std::string& text);  // an event, on a line of its own
  void end();

 private:
  std::string title_;
  std::uint32_t steps_, shown_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace digits
