// Bytes from the operating system's random generator. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/error.h"

namespace troupe {

Result<void> random_bytes(std::span<std::uint8_t> into);

}  // namespace troupe
