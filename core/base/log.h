// Logging: one line an event, "time level process: text", to stderr or a rotated file. Any thread.
// Lines that may repeat without bound go through a RateLimit, which says how many were left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

enum class Level { debug, info, warning, error };

// Names the process in its lines ("head", "node n1"). With a file: rotated at 8 MiB, 3 old ones kept.
void log_to(const std::string& process, const std::string& file = "");
void log_level(Level least);
void log(Level level, const std::string& text);

// Lets `per_window` lines pass in each window. Not thread-safe.
class RateLimit {
 public:
  explicit RateLimit(int per_window, std::chrono::milliseconds window = std::chrono::seconds(1))
      : per_window_(per_window), window_(window) {}
  // True when the line may be printed; `dropped` then tells how many were left out since the last one.
  bool pass(std::chrono::steady_clock::time_point now, std::uint64_t& dropped);

 private:
  int per_window_;
  std::chrono::milliseconds window_;
  std::chrono::steady_clock::time_point start_{};
  int used_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace troupe
