#include "core/config/home.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "core/os/fd.h"

namespace troupe {
namespace {

std::string home_path() {
  if (const char* given = std::getenv("TROUPE_HOME"); given != nullptr && *given != 0) return given;
  const char* user_home = std::getenv("HOME");
  if (user_home == nullptr || *user_home == 0) {
    const passwd* user = ::getpwuid(::getuid());
    user_home = user != nullptr ? user->pw_dir : nullptr;
  }
  return user_home != nullptr ? std::string(user_home) + "/.troupe" : "";
}

}  // namespace

Result<void> make_private_directory(const std::string& path) {
  std::error_code bad;
  auto above = std::filesystem::path(path).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, bad);
  if (bad) return system_error(bad.value(), "cannot create the folder " + above.string());
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return system_error(errno, "cannot create the folder " + path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error(errno, "cannot look at the folder " + path);
  if (!S_ISDIR(info.st_mode)) return Error(ErrorKind::invalid_argument, path + " is not a folder");
  if (info.st_uid != ::geteuid()) {
    return Error(ErrorKind::invalid_argument, "the folder " + path + " belongs to another user");
  }
  if ((info.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0) {
    return system_error(errno, "cannot make the folder " + path + " private");
  }
  return {};
}

Result<std::string> home() {
  std::string path = home_path();
  if (path.empty()) {
    return Error(ErrorKind::invalid_argument,
                 "no home folder: set TROUPE_HOME to a folder for Troupe's files");
  }
  std::error_code bad;
  path = std::filesystem::absolute(path, bad).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (auto made = make_private_directory(path); !made) {
    Error error = made.error();
    error.message += "; set TROUPE_HOME to a folder of your own";
    return error;
  }
  return path;
}

Result<void> replace_file(const std::string& path, const std::string& content) {
  std::string fresh = path + "." + std::to_string(::getpid());
  UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, "cannot create " + fresh);
  ssize_t n = ::write(fd.get(), content.data(), content.size());
  int number = n < 0 ? errno : ENOSPC;
  if (n == static_cast<ssize_t>(content.size()) && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  if (n == static_cast<ssize_t>(content.size())) number = errno;
  ::unlink(fresh.c_str());
  return system_error(number, "cannot write " + path);
}

}  // namespace troupe
