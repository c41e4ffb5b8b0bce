// PollingPolicy: how long may this wait poll before it sleeps?
//
// Polling saves a wake-up (20-50 µs) when a core is free and wastes the core when none is. So a poll that
// found nothing costs the next 1, 2, 4 … 256 waits their poll, and one that found something makes the policy
// start afresh. The budget should exceed the machine's wake-up time, or polling never catches on.
//
// A pure value without a clock: the caller measures. Owner: a lane; used under its baton.
#pragma once

#include <chrono>

namespace troupe {

class PollingPolicy {
 public:
  static constexpr std::chrono::microseconds kDefaultBudget{50};
  static constexpr int kMostSkipped = 256;

  // A budget of 0 never polls.
  explicit PollingPolicy(std::chrono::microseconds budget = kDefaultBudget) : budget_(budget) {}

  // At the start of each wait: how long to poll; 0 is to sleep at once.
  std::chrono::microseconds next_wait();

  // After each wait that was allowed to poll: whether the poll found something.
  void polled(bool found);

 private:
  std::chrono::microseconds budget_;
  int skip_ = 0;     // waits left that do not poll
  int penalty_ = 1;  // waits that the next failure costs
};

}  // namespace troupe
