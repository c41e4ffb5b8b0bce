#include "runtime/call/backtrace.h"

#define BACKWARD_HAS_DW 1
#include <backward.hpp>
#include <map>
#include <memory>
#include <mutex>

namespace troupe {
namespace {

constexpr std::size_t kMostLines = 16;
constexpr std::size_t kMostCached = 4096;

// Between the throw and the actor's code: skipped. Below it, from where its method is called: the end.
bool is_throwing(const std::string& function) {
  return function.find("__cxa_throw") != function.npos ||
         function.find("__interceptor_") != function.npos;  // a sanitizer's
}
bool is_calling(const std::string& file) {
  return file.find("/troupe/detail/method.h") != file.npos ||
         file.find("/runtime/call/actor_cell.cpp") != file.npos || file.find("/troupe/task.h") != file.npos ||
         file.find("/runtime/lane/lane.cpp") != file.npos;
}
const std::string kEnd = "\n";

}  // namespace

std::vector<std::string> describe_frames(std::span<void* const> frames) {
  static std::mutex mutex;
  static std::map<void*, std::string> known;
  std::lock_guard lock(mutex);
  if (known.size() > kMostCached) known.clear();
  std::vector<std::string> lines;
  std::unique_ptr<backward::TraceResolver> resolver;
  for (void* frame : frames) {
    if (lines.size() == kMostLines) break;
    auto at = known.find(frame);
    if (at == known.end()) {
      if (!resolver) {
        resolver = std::make_unique<backward::TraceResolver>();
        resolver->load_addresses(frames.data(), static_cast<int>(frames.size()));
      }
      // A return address points behind its call.
      backward::ResolvedTrace trace =
          resolver->resolve(backward::ResolvedTrace(backward::Trace(static_cast<char*>(frame) - 1, 0)));
      std::string function = trace.source.function.empty() ? trace.object_function : trace.source.function;
      std::string line;
      if (is_calling(trace.source.filename)) {
        line = kEnd;
      } else if (!is_throwing(function)) {
        line = function.empty() ? trace.object_filename : function;
        if (!trace.source.filename.empty()) {
          line += " at " + trace.source.filename + ":" + std::to_string(trace.source.line);
        }
      }
      at = known.emplace(frame, std::move(line)).first;
    }
    if (at->second == kEnd) break;
    if (!at->second.empty()) lines.push_back(at->second);
  }
  return lines;
}

}  // namespace troupe
