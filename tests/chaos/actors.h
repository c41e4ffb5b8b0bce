// The actors of the chaos load. A Counter writes each call it runs to a file before it answers, so that what
// ran is known after its process was killed.
#pragma once

#include <troupe/troupe.h>

#include <cstdint>
#include <map>
#include <string>

namespace chaos {

// Where and how a call ran.
struct Receipt {
  std::uint32_t incarnation = 0;
  std::uint32_t failed = 0;  // of a relayed call that failed: 1 + its ErrorKind
};

// One run of a call, as it stands in the file.
struct Record {
  std::uint32_t caller = 0;
  std::uint32_t via = 0;  // incarnation of the relay; 0: called by the driver itself
  std::uint64_t number = 0;
};

class Counter {
 public:
  // Its files are PREFIX.INCARNATION.
  explicit Counter(const std::string& prefix);
  Counter(const Counter&) = delete;
  ~Counter();
  Receipt run(std::uint32_t caller, std::uint32_t via, std::uint64_t number);
  int pid() const;

 private:
  int file_ = -1;
};

// Passes calls on, from worker to worker.
class Relay {
 public:
  troupe::Task<Receipt> forward(troupe::Handle<Counter> to, std::uint32_t caller, std::uint64_t number,
                                int deadline_ms);

 private:
  std::map<std::uint64_t, troupe::Handle<Counter>> targets_;
};

}  // namespace chaos

template <>
inline constexpr auto troupe::actor<chaos::Counter> =
    troupe::describe<chaos::Counter>("chaos.Counter")
        .constructor<std::string>()
        .methods<&chaos::Counter::run, &chaos::Counter::pid>();
template <>
inline constexpr auto troupe::actor<chaos::Relay> =
    troupe::describe<chaos::Relay>("chaos.Relay").methods<&chaos::Relay::forward>().concurrent(1000);
