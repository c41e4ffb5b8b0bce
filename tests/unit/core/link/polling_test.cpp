#include "core/link/polling.h"

#include <gtest/gtest.h>

#include <string>

namespace troupe {
namespace {

// Plays one wait a letter: 'f' a poll that found something, 'n' one that did not. Returns 'p' for a wait that
// may poll and '-' for one that may not; a letter is used up only by a poll.
std::string play(PollingPolicy& policy, const std::string& outcomes, int waits) {
  std::string transcript;
  std::size_t at = 0;
  for (int i = 0; i < waits; ++i) {
    if (policy.next_wait().count() == 0) {
      transcript += '-';
      continue;
    }
    transcript += 'p';
    policy.polled(at < outcomes.size() && outcomes[at] == 'f');
    ++at;
  }
  return transcript;
}

TEST(PollingPolicyTest, PollsWhileItFinds) {
  PollingPolicy policy;
  EXPECT_EQ(policy.next_wait(), PollingPolicy::kDefaultBudget);
  EXPECT_EQ(play(policy, "fffff", 5), "ppppp");
}

TEST(PollingPolicyTest, SkipsOneTwoFour) {
  PollingPolicy policy;
  EXPECT_EQ(play(policy, "nnnn", 11), "p-p--p----p");
}

TEST(PollingPolicyTest, StartsAfreshAfterASuccess) {
  PollingPolicy policy;
  EXPECT_EQ(play(policy, "nnnfnn", 17), "p-p--p----pp-p--p");
}

TEST(PollingPolicyTest, SkipsAtMost256) {
  PollingPolicy policy;
  std::string transcript = play(policy, "", 5000);
  std::size_t longest = 0, run = 0;
  for (char c : transcript) {
    run = c == '-' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  EXPECT_EQ(longest, 256u);
}

TEST(PollingPolicyTest, NoBudgetNeverPolls) {
  PollingPolicy policy(std::chrono::microseconds(0));
  EXPECT_EQ(play(policy, "", 6), "------");
}

}  // namespace
}  // namespace troupe
