// The UCI handwritten digits (examples/data/README.md): 1,797 rows, the first 899 for training, the rest for
// testing.
#pragma once

#include <string>

#include "network.h"

namespace digits {

inline constexpr std::size_t kTrainingRows = 899;

// Parses the rows begin … end-1 of the gzip-compressed file and scales the pixels from 0…16 to 0…1, on all
// cores the process may use (oneTBB). Throws std::runtime_error when the file is missing or not what it
// should be.
Rows load_rows(const std::string& path, std::size_t begin, std::size_t end);
std::size_t row_count(const std::string& path);

}  // namespace digits
