#include "burst.h"

#include <signal.h>

#include <chrono>

#include "caller.h"

namespace chaos {

Sums burst(const std::string& prefix, bool retries) {
  using namespace std::chrono_literals;
  constexpr int kCalls = 10'000;
  constexpr std::uint32_t kCaller = 1;
  auto actor = troupe::spawn<Counter>(troupe::ActorOptions().max_restarts(-1), prefix);
  int pid = actor.call<&Counter::pid>().get();
  auto bound = actor.with(troupe::CallOptions().deadline(60s).retries(retries ? 10 : 0));
  Ledger ledger(retries);
  std::int64_t begin = now_ms();
  std::vector<troupe::Future<Receipt>> answers;
  for (int i = 0; i < kCalls; ++i) {
    answers.push_back(bound.call<&Counter::run>(kCaller, 0, ledger.make()));
    if (i != kCalls / 2) continue;
    (void)answers[kCalls / 4].wait_for(60s);
    ::kill(pid, SIGKILL);
  }
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    try {
      if (!answers[i].wait_for(120s)) {
        ledger.give_up(i);
        continue;
      }
      ledger.acknowledge(i, answers[i].get().incarnation, now_ms() - begin);
    } catch (const troupe::Failure& failure) {
      ledger.fail(i, static_cast<std::uint32_t>(failure.error().kind), now_ms() - begin);
    }
  }
  actor.kill().get();
  ledger.check(prefix, kCaller, 0, kCalls);
  return ledger.sums();
}

}  // namespace chaos
