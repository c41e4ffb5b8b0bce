// What the cases of the probe check with: each throws what was wrong.
#pragma once

#include <troupe/errors.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace probe {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(bool good, const std::string& what) {
  if (!good) throw Wrong(what);
}

// Waits for it; the limit is a watchdog.
inline void eventually(const std::function<bool()>& condition, const std::string& what) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) throw Wrong("did not come to pass: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

template <class F>
troupe::Error failure_of(F f) {
  try {
    f();
  } catch (const troupe::Failure& e) {
    return e.error();
  }
  throw Wrong("a failure was expected");
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
