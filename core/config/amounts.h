// Amounts and resources as people write them: "0.5", "8GiB", "tpu=1". Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace troupe {

// A plain decimal number, not negative.
Result<double> parse_amount(const std::string& text);
// A number of bytes with an optional unit: B, K, M, G, T, KB, KiB, … All units are powers of 1024 but for KB,
// MB, GB and TB, which are powers of 1000.
Result<std::int64_t> parse_bytes(const std::string& text);
// "NAME=AMOUNT"; the name is made of letters, digits, '_', '-', '.' and '/', and is none of cpu, gpu and
// memory.
Result<std::pair<std::string, double>> parse_resource(const std::string& text);

std::string show_bytes(std::int64_t bytes);  // "1.5GiB"

}  // namespace troupe
