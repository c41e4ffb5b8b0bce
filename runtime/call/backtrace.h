// Frames of a stack as readable lines: function, and file and line where the debug information tells. Slow
// the first time; any thread, one at a time.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace troupe {

std::vector<std::string> describe_frames(std::span<void* const> frames);

}  // namespace troupe
