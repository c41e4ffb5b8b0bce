// A job's log on this node: lines of its workers, rotated and bounded on disk. PATH is the newest file,
// PATH.1 the one before it, and so on.
//
// Owner: AgentState. Thread: the control thread; append() gathers, flush() writes. Errors (a full disk) lose
// lines, are logged at a limited rate, and pass when there is room again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/log.h"
#include "core/os/fd.h"

namespace troupe {

class LogFile {
 public:
  static constexpr std::size_t kFileSize = 8u << 20;
  static constexpr int kFiles = 3;

  explicit LogFile(std::string path, std::size_t file_size = kFileSize, int files = kFiles);
  ~LogFile() { flush(); }
  LogFile(const LogFile&) = delete;

  void append(std::string_view prefix, std::string_view line);
  void flush();
  // The last `lines` lines that begin with `prefix` and are still on disk, at most kMostRead bytes of them.
  std::string tail(std::string_view prefix, std::size_t lines);
  const std::string& path() const { return path_; }

 private:
  static constexpr std::size_t kMostRead = 4u << 20;
  bool open();
  void rotate();
  std::string name(int age) const { return age == 0 ? path_ : path_ + "." + std::to_string(age); }
  void complain(const std::string& what);

  std::string path_;
  std::size_t file_size_;
  int files_;
  UniqueFd fd_;
  std::size_t size_ = 0;
  std::string pending_;
  RateLimit complaints_{1, std::chrono::seconds(30)};
};

}  // namespace troupe
