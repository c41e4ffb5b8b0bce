#include "core/base/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace troupe {
namespace {

constexpr std::size_t kFileSize = 8u << 20;
constexpr std::size_t kOldFiles = 3;

std::shared_ptr<spdlog::logger> make(const std::string& process, const std::string& file) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, kFileSize, kOldFiles);
  }
  auto logger = std::make_shared<spdlog::logger>(process, std::move(sink));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l " + process + ": %v");
  logger->flush_on(spdlog::level::info);
  return logger;
}

std::shared_ptr<spdlog::logger>& current() {
  static std::shared_ptr<spdlog::logger> logger = make("troupe", "");
  return logger;
}

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void log_to(const std::string& process, const std::string& file) {
  auto level = current()->level();
  current() = make(process, file);
  current()->set_level(level);
}

void log_level(Level least) { current()->set_level(level_of(least)); }

void log(Level level, const std::string& text) { current()->log(level_of(level), "{}", text); }

bool RateLimit::pass(std::chrono::steady_clock::time_point now, std::uint64_t& dropped) {
  if (now - start_ >= window_) {
    start_ = now;
    used_ = 0;
  }
  if (used_ >= per_window_) {
    ++dropped_;
    return false;
  }
  ++used_;
  dropped = dropped_;
  dropped_ = 0;
  return true;
}

}  // namespace troupe
