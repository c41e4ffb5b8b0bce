// How long a group is away when one of its ranks is killed.
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tools/bench/actors.h"
#include "tools/bench/harness.h"

namespace troupe::bench {

void Rank::join(Group group) {
  group_ = std::move(group);
  group_.join().get();
}

float Rank::sum() {
  auto tensor = Tensor::from(std::vector<float>(1000, 1.0f));
  group_.all_reduce(tensor).get();
  return tensor.span<float>()[0];
}

float Rank::outlive() {
  try {
    sum();
  } catch (const Failure&) {
    group_.reform().get();
  }
  return sum();
}

int Rank::pid() const { return ::getpid(); }

namespace {

// Seconds from the SIGKILL of one of four ranks, while the others wait for it in an all_reduce, until an
// all_reduce of the generation after has ended on all four. The rank is restarted meanwhile.
double reform() {
  constexpr int kRanks = 4;
  std::vector<Handle<Rank>> ranks;
  for (int i = 0; i < kRanks; ++i) ranks.push_back(spawn<Rank>(ActorOptions().max_restarts(-1)));
  auto group = make_group(ranks);
  std::vector<Future<void>> joined;
  for (auto& rank : ranks) joined.push_back(rank.call<&Rank::join>(group));
  for (auto& one : joined) one.get();
  int pid = ranks.back().call<&Rank::pid>().get();
  std::vector<Future<float>> sums;
  for (int i = 0; i + 1 < kRanks; ++i)
    sums.push_back(ranks[static_cast<std::size_t>(i)].call<&Rank::outlive>());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // they are in it
  double begin = seconds_now();
  ::kill(pid, SIGKILL);
  auto again = CallOptions().retries(20);
  ranks.back().with(again).call<&Rank::join>(group).get();
  sums.push_back(ranks.back().call<&Rank::sum>());
  for (auto& one : sums)
    if (one.get() != kRanks) throw std::runtime_error("a sum of the group that formed anew is wrong");
  double took = seconds_now() - begin;
  for (auto& rank : ranks) rank.kill().get();
  return took;
}

}  // namespace

std::vector<Case> reform_cases() {
  return {{"group_reform", "s",
           "SIGKILL of one of 4 ranks to the next all_reduce of all 4, restarted one included", reform,
           nullptr}};
}

}  // namespace troupe::bench
