#include "runtime/agent/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "core/base/error.h"

namespace troupe {

LogFile::LogFile(std::string path, std::size_t file_size, int files)
    : path_(std::move(path)), file_size_(file_size), files_(files) {}

void LogFile::append(std::string_view prefix, std::string_view line) {
  if (pending_.size() > file_size_) flush();
  pending_.append(prefix).append(line).push_back('\n');
}

void LogFile::flush() {
  std::string_view rest = pending_;
  while (!rest.empty()) {
    if (!fd_ && !open()) break;
    if (size_ >= file_size_) {
      rotate();
      continue;
    }
    // Whole lines, as many as fit; at least one.
    auto piece = rest;
    if (size_ + rest.size() > file_size_) {
      auto end = rest.rfind('\n', file_size_ - size_);
      if (end == rest.npos && size_ > 0) {
        rotate();
        continue;
      }
      piece = rest.substr(0, (end == rest.npos ? rest.find('\n') : end) + 1);
    }
    ssize_t n = ::write(fd_.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      complain(system_error(errno, "cannot write the log " + path_).message);
      break;
    }
    size_ += static_cast<std::size_t>(n);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  pending_.clear();
}

bool LogFile::open() {
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd_) {
    complain(system_error(errno, "cannot open the log " + path_).message);
    return false;
  }
  struct stat info {};
  size_ = ::fstat(fd_.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
  return true;
}

void LogFile::rotate() {
  for (int age = files_ - 1; age > 0; --age) ::rename(name(age - 1).c_str(), name(age).c_str());
  if (files_ == 1) ::unlink(path_.c_str());
  fd_.reset();
  size_ = 0;
}

std::string LogFile::tail(std::string_view prefix, std::size_t lines) {
  flush();
  std::string text;
  for (int age = 0; age < files_ && text.size() < kMostRead; ++age) {
    UniqueFd fd(::open(name(age).c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0) break;
    auto size = static_cast<std::size_t>(info.st_size);
    std::size_t want = std::min(size, kMostRead - text.size());
    std::string piece(want, '\0');
    ssize_t n = ::pread(fd.get(), piece.data(), want, static_cast<off_t>(size - want));
    piece.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    if (want < size) piece.erase(0, piece.find('\n') + 1);
    text.insert(0, piece);
    if (prefix.empty() && static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= lines)
      break;
  }
  std::vector<std::string_view> found;
  std::string_view rest = text;
  while (!rest.empty() && found.size() < lines) {
    auto before = rest.size() < 2 ? rest.npos : rest.rfind('\n', rest.size() - 2);
    std::size_t begin = before == rest.npos ? 0 : before + 1;
    auto line = rest.substr(begin);
    if (line.substr(0, prefix.size()) == prefix) found.push_back(line);
    rest = rest.substr(0, begin);
  }
  std::string out;
  for (auto line = found.rbegin(); line != found.rend(); ++line) out += *line;
  return out;
}

void LogFile::complain(const std::string& what) {
  std::uint64_t left_out = 0;
  if (complaints_.pass(std::chrono::steady_clock::now(), left_out))
    log(Level::warning, what + "; lines are lost");
}

}  // namespace troupe
