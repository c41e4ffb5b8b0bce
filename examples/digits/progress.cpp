#include "progress.h"

#include <unistd.h>

#include <cstdio>

namespace digits {

ProgressLine::ProgressLine(std::string title, std::uint32_t steps)
    : title_(std::move(title)),
      steps_(steps),
      terminal_(::isatty(1) == 1),
      started_(std::chrono::steady_clock::now()) {}

void ProgressLine::show(std::uint32_t step, double loss, double accuracy, std::uint64_t samples) {
  constexpr std::uint32_t kLines = 6;
  bool milestone = step * kLines / steps_ != shown_ * kLines / steps_;
  shown_ = step;
  if (!terminal_ && !milestone) return;
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  std::printf("%s%s: step %u/%u  loss %.4f  accuracy %.4f  %.0f samples/s%s", terminal_ ? "\r\033[K" : "",
              title_.c_str(), step, steps_, loss, accuracy, static_cast<double>(samples) / seconds,
              terminal_ ? "" : "\n");
  std::fflush(stdout);
}

void ProgressLine::note(const std::string& text) {
  std::printf("%s%s: %s\n", terminal_ ? "\r\033[K" : "", title_.c_str(), text.c_str());
  std::fflush(stdout);
}

void ProgressLine::end() {
  if (terminal_) std::printf("\n");
}

}  // namespace digits
