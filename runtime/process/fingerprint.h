// What tells one build of an executable from another. Driver and worker compare it when they connect, so that
// "method not found over there" cannot happen late. Any thread; computed once.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

std::uint64_t fingerprint();
std::string executable_path();

}  // namespace troupe
