// A thread that keeps many numbered calls outstanding, and enters the end of each into its ledger.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "ledger.h"

namespace chaos {

struct CallerOptions {
  std::uint32_t id = 0;
  bool retries = false;
  std::size_t outstanding = 128;  // at most
  int each_round = 2;             // calls, every 5 ms
  int deadline_ms = 3000;         // of each call; 0: none
  int calls_per_target = 0;       // then comes a new target; 0: the first serves for ever
};

class Caller {
 public:
  using Answer = troupe::Future<Receipt>;
  using Make = std::function<Answer(std::uint64_t number)>;
  // Makes or finds the actor for the calls that follow; fills in the prefix of its files.
  using Aim = std::function<Make(std::string& prefix)>;

  Caller(CallerOptions options, Aim aim);
  void quiet() { quiet_ = true; }  // makes no more calls; the thread ends when all have ended
  bool idle() const { return idle_; }
  void finish();  // waits for that and checks the ledger
  const Ledger& ledger() const { return ledger_; }
  std::uint64_t acknowledged() const { return seen_; }

 private:
  struct Open {
    std::uint64_t number;
    Answer answer;
    std::int64_t made_ms;
  };
  struct Target {
    std::string prefix;
    std::uint64_t from;
  };
  void work();
  void make_calls();
  void take_ends();

  CallerOptions options_;
  Aim aim_;
  Make call_;
  std::deque<Open> open_;
  std::vector<Target> targets_;
  Ledger ledger_;
  std::int64_t quiet_since_ = 0;
  std::uint64_t rounds_ = 0;
  bool renew_ = false;
  std::atomic<bool> quiet_{false}, idle_{false};
  std::atomic<std::uint64_t> seen_{0};
  std::jthread thread_;
};

std::int64_t now_ms();

}  // namespace chaos
