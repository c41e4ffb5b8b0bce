// What a call to a durable actor carries besides: its caller's number for it, and its place in the journal.
//
// Owner: the invocation. Thread: the actor's lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/pool.h"

namespace troupe {

struct Remembered;

// Who numbers calls: a lane of a process.
constexpr std::uint64_t caller_id(ProcessId process, int lane) {
  return process.value << 8 | static_cast<unsigned>(lane & 0xff);
}

// How the caller names a call: it may come again, and must run once.
struct CallNumber {
  std::uint64_t caller = 0;    // process and lane
  std::uint64_t sequence = 0;  // grows with each call of the caller; 0: the call has no number
  std::uint64_t floor = 0;     // the caller has its answers to all calls to this actor below
};

struct OnceCall : Pooled {
  OnceCall(const CallNumber& n, std::span<const std::byte> a) : number(n), args(a.begin(), a.end()) {}
  CallNumber number;
  std::uint64_t position = 0;                // in the journal, once it runs; 0: not in it
  std::shared_ptr<const Remembered> answer;  // it has run before
  std::vector<std::byte> args;               // until it runs
};

}  // namespace troupe
