// What the probe's cases check with: conditions, waiting for them, failures, what a node's object store
// holds.
#pragma once

#include <troupe/troupe.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace probe {

inline void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

inline void eventually(const std::function<bool()>& condition, const std::string& what) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("did not come to pass: " + what);
}

template <class F>
troupe::Error failure_of(F f) {
  try {
    f();
  } catch (const troupe::Failure& e) {
    return e.error();
  }
  throw std::runtime_error("a failure was expected");
}

// A field of the first node's line of `troupe memory --json`.
inline std::uint64_t memory_field(const std::string& field) {
  auto command = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "troupe";
  FILE* out = ::popen((command.string() + " memory --json").c_str(), "r");
  std::string text;
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, out)) > 0;) text.append(part, n);
  ::pclose(out);
  auto at = text.find("\"" + field + "\":");
  check(at != text.npos, "troupe memory shows " + field + ": " + text);
  return std::stoull(text.substr(at + field.size() + 3));
}

}  // namespace probe
