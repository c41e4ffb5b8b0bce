// $TROUPE_HOME, by default ~/.troupe: the user's private folder for tokens, cluster files, state and logs.
// Any thread.
#pragma once

#include <string>

#include "core/base/error.h"

namespace troupe {

// The absolute path; the folder is created with mode 0700 when it is missing, and refused when it belongs to
// another user. Errors say which variable to set.
Result<std::string> home();

// Creates `path` and what lies above it; the last folder is private to the user.
Result<void> make_private_directory(const std::string& path);

// Writes a small file whole, mode 0600: readers see the old content or the new one.
Result<void> replace_file(const std::string& path, const std::string& content);

}  // namespace troupe
